"""Shared quotas on Redis: a hash and a list for each quota, and three short scripts.

Only a single server that evicts nothing of ours: a cluster or a sentinel hands over to a copy that
may lack the latest changes, so they are refused.
"""

from __future__ import annotations

import hashlib
import threading
import time
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from redis import exceptions
from redis.backoff import NoBackoff
from redis.connection import ConnectionInterface, ConnectionPool
from redis.retry import Retry

from headrace.quota.clock import NS
from headrace.quota.exceptions import QuotaOutage, QuotaServerRefused
from headrace.quota.location import QuotaServer
from headrace.quota.shared.clock import ServerClock
from headrace.quota.shared.server import GONE, KEPT, Answer, History, Position

#: Scripts write after they have read the time since this version; older ones refuse that.
OLDEST = (6, 0)
#: The longest wait for a connection, or for an answer, in seconds.
LIMIT_S = 2.0

_NAMES = b"headrace:quotas"
_KEY = "headrace:quota:{}"

_READ = """
local time = redis.call('TIME')
local known = redis.call('HMGET', KEYS[1], 'epoch', 'made', 'unsure', 'version', 'base', 'content')
if not known[1] then return {time} end
local since = tonumber(known[4]) - tonumber(known[5])
local changes = {}
if since > 0 then changes = redis.call('LRANGE', KEYS[2], -since, -1) end
return {time, known, changes}
"""
_BEGIN = """
local time = redis.call('TIME')
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('DEL', KEYS[2])
  local made = time[1] .. string.format('%06d', time[2])
  redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'made', made, 'unsure', ARGV[2], 'version', 0,
    'base', 0, 'content', ARGV[3])
  redis.call('SADD', KEYS[3], ARGV[4])
end
return {time}
"""
_APPEND = """
local time = redis.call('TIME')
local known = redis.call('HMGET', KEYS[1], 'epoch', 'version')
if known[1] ~= ARGV[1] then return {time, 'gone'} end
local since = tonumber(known[2]) - tonumber(ARGV[2])
if since < 0 or since > redis.call('LLEN', KEYS[2]) then return {time, 'gone'} end
if since > 0 then return {time, 'behind', redis.call('LRANGE', KEYS[2], -since, -1)} end
if ARGV[3] ~= '' then
  redis.call('RPUSH', KEYS[2], ARGV[3])
  local version = redis.call('HINCRBY', KEYS[1], 'version', 1)
  if ARGV[4] ~= '' then
    redis.call('HSET', KEYS[1], 'base', version, 'content', ARGV[4])
    redis.call('LTRIM', KEYS[2], -ARGV[5], -1)
  end
end
return {time, 'done'}
"""
_SHA = {text: hashlib.sha1(text.encode()).hexdigest() for text in (_READ, _BEGIN, _APPEND)}


class RedisKeeper:
    """`Keeper` on a Redis server.

    Raises:
        QuotaServerRefused: the URL cannot be used.
    """

    def __init__(self, server: QuotaServer) -> None:
        self.clock = ServerClock()
        self._server = server
        self._mutex = threading.Lock()
        self._connection: ConnectionInterface | None = None
        self._connections = 0
        self._started = 0
        self._about: dict[str, str] = {}
        url = server.url.get_secret_value()
        try:
            # Tried again by us alone: only we know what may be done twice.
            self._pool = ConnectionPool.from_url(
                url,
                socket_timeout=LIMIT_S,
                socket_connect_timeout=LIMIT_S,
                retry=Retry(NoBackoff(), 0),
                protocol=2,
                client_name="headrace",
            )
            database = urlsplit(url).path.strip("/")
            if database and not database.isdigit():
                raise ValueError("the path is no number")
        except (ValueError, TypeError) as error:
            raise QuotaServerRefused(
                str(server),
                "the URL cannot be used",
                hint=f"Write {server.setting} as redis://USER:PASSWORD@HOST:6379/0",
            ) from error

    def __str__(self) -> str:
        return str(self._server)

    @property
    def software(self) -> str:
        """See `Keeper`."""
        self.connect()
        kept = self._about.get("aof_enabled") == "1"
        after = "it keeps its data" if kept else "it begins with nothing after a restart"
        return f"Redis {self._about['redis_version']} ({after})"

    def connect(self) -> int:
        """See `Keeper`; also looks whether this server can keep quotas."""
        with self._mutex:
            self._connected()
            return self._connections

    def read(self, name: str) -> History | None:
        """See `Keeper`."""
        _, *known = self._run(_READ, name)
        if not known:
            return None
        (epoch, made, unsure, version, _, content), changes = known
        return History(
            epoch.decode(), int(made) * 1000, unsure == b"1", int(version), content, changes
        )

    def begin(self, name: str, epoch: str, content: bytes, horizon: int) -> None:
        """See `Keeper`."""
        # What was kept before the server was started may be lost, so nothing is known of it.
        unsure = self.clock.now() - self._started < horizon
        self._run(_BEGIN, name, epoch, int(unsure), content, name, more=(_NAMES,))

    def append(self, position: Position, change: bytes, content: bytes) -> Answer:
        """See `Keeper`."""
        _, what, *changes = self._run(
            _APPEND, position.name, position.epoch, position.version, change, content, KEPT
        )
        if what == b"gone":
            return GONE
        return Answer(what == b"done", changes[0] if changes else [])

    def names(self) -> list[str]:
        """See `Keeper`."""
        with self._mutex:
            found = self._ask("SMEMBERS", _NAMES)
        return sorted(name.decode() for name in found)

    def drop(self, name: str) -> None:
        """Remove a quota."""
        with self._mutex:
            self._ask("DEL", *_keys(name))
            self._ask("SREM", _NAMES, name)

    def close(self) -> None:
        """Close the connection; the next call makes another."""
        with self._mutex:
            self._drop()

    def _run(self, script: str, name: str, *arguments: object, more: tuple[bytes, ...] = ()) -> Any:
        """Run a script on a quota, and learn from its answer what time the server has."""
        keys = (*_keys(name), *more)
        with self._mutex:
            self._connected()
            left = time.monotonic_ns()
            try:
                answer = self._ask("EVALSHA", _SHA[script], len(keys), *keys, *arguments)
            except exceptions.NoScriptError:
                left = time.monotonic_ns()
                answer = self._ask("EVAL", script, len(keys), *keys, *arguments)
            self._learn(left, answer[0])
            return answer

    def _learn(self, left: int, answer: tuple[bytes, bytes]) -> None:
        seconds, micros = answer
        self.clock.learn(left, time.monotonic_ns(), int(seconds) * NS + int(micros) * 1000)

    def _ask(self, *words: object) -> Any:
        connection = self._connected()
        try:
            connection.send_command(*words)  # type: ignore[no-untyped-call]
            return connection.read_response()
        except exceptions.NoScriptError:
            raise
        except exceptions.RedisError as error:
            raise self._in_our_words(error) from error

    # -- the connection -------------------------------------------------------------------------

    def _connected(self) -> ConnectionInterface:
        if self._connection is not None:
            return self._connection
        connection = self._pool.make_connection()
        try:
            connection.connect()  # type: ignore[no-untyped-call]
            self._connection = connection
            self._connections += 1
            self._look_at_server()
        except exceptions.RedisError as error:
            raise self._in_our_words(error) from error
        except QuotaServerRefused:
            self._drop()
            raise
        return connection

    def _look_at_server(self) -> None:
        """Refuse a server that may forget a part of what it keeps."""
        about: dict[str, str] = {}
        for section in ("server", "memory", "persistence", "replication"):
            for line in self._ask("INFO", section).decode().splitlines():
                key, colon, value = line.partition(":")
                if colon:
                    about[key] = value
        self._about = about
        if about.get("redis_mode", "standalone") != "standalone":
            raise self._refused(
                f"it is a Redis {about['redis_mode']}, which is not supported",
                "Name one Redis server, without a cluster or a sentinel, or a PostgreSQL",
            )
        if _version(about) < OLDEST:
            raise self._refused(
                f"it is Redis {about.get('redis_version')}",
                f"Headrace needs Redis {'.'.join(map(str, OLDEST))} or later",
            )
        if about.get("role") == "slave":
            raise self._refused("it is a replica", "Name the primary server")
        if about.get("maxmemory_policy", "").startswith("allkeys"):
            raise self._refused(
                f"its maxmemory-policy is {about['maxmemory_policy']}, so it may evict the quota",
                "Set maxmemory-policy to noeviction (by CONFIG SET, and in redis.conf), or name a "
                "Redis that is no cache",
            )
        self.clock.boot_id = about["run_id"]
        left = time.monotonic_ns()
        self._learn(left, self._ask("TIME"))
        self._started = self.clock.now() - int(about["uptime_in_seconds"]) * NS

    def _refused(self, reason: str, hint: str) -> QuotaServerRefused:
        return QuotaServerRefused(str(self), reason, hint=f"{hint}, in {self._server.setting}")

    def _in_our_words(self, error: exceptions.RedisError) -> Exception:
        """The error to raise; a connection of which nothing is known any more is dropped."""
        said = " ".join(str(error).split()).rstrip(".")
        if isinstance(error, exceptions.AuthenticationError | exceptions.NoPermissionError):
            self._drop()
            return self._refused(said, "Correct user and password")
        if isinstance(error, exceptions.ReadOnlyError):
            self._drop()
            return self._refused(said, "Name the primary server")
        if isinstance(error, exceptions.OutOfMemoryError):
            return QuotaOutage(str(self), said, hint="Give that Redis more memory (maxmemory)")
        self._drop()
        hint = (
            f"Look whether the server of {self._server.setting} runs and can be reached from here"
        )
        return QuotaOutage(str(self), said or type(error).__name__, hint=hint)

    def _drop(self) -> None:
        if self._connection is not None:
            with suppress(exceptions.RedisError, OSError):  # it is given up in any case
                self._connection.disconnect()  # type: ignore[no-untyped-call]
            self._connection = None


def _version(about: dict[str, str]) -> tuple[int, ...]:
    """The version of a server by what INFO says."""
    return tuple(int(part) for part in about.get("redis_version", "0").split(".") if part.isdigit())


def _keys(name: str) -> tuple[str, str]:
    key = _KEY.format(name)
    return key, f"{key}:changes"
