"""Apache Cassandra for tests: one node or three, started and stopped by pid on loopback.

    with running_cluster(folder, nodes=3) as cluster:
        cluster.hosts, cluster.port        # for a driver
        cluster.nodes[1].kill()            # SIGKILL

`HEADRACE_CQL_HOSTS` (`host[:port],host...`) points the tests at another server instead, such as
ScyllaDB; then nothing is started, and tests that kill nodes skip.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.services_fixtures import free_port
from tests.support.cassandra_files import Unavailable, cassandra_jars, java

START_LIMIT_S = 120.0
STOP_LIMIT_S = 20.0
HOSTS_VARIABLE = "HEADRACE_CQL_HOSTS"

#: What Cassandra 5.0 reaches into on Java 17, as its own start script lists it.
_EXPORTS = (
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.rmi/sun.rmi.transport.tcp",
    "java.sql/java.sql",
    "java.base/java.lang.ref",
    "jdk.unsupported/sun.misc",
)
_OPENS = (
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.math",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
)

_LOGBACK = """<configuration><appender name="out" class="ch.qos.logback.core.ConsoleAppender">
<encoder><pattern>%d %-5level %logger{0} %msg%n</pattern></encoder></appender>
<root level="WARN"><appender-ref ref="out"/></root></configuration>
"""


@dataclass
class Node:
    """One node of a cluster, running or not."""

    address: str
    folder: Path
    command: list[str]
    port: int
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def log(self) -> Path:
        """What it said."""
        return self.folder / "server.log"

    def start(self) -> None:
        """Start it, without waiting until it answers."""
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                self.command, cwd=self.folder, stdout=output, stderr=output
            )

    def wait(self) -> None:
        """Wait until it speaks CQL."""
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            if self.process is None or self.process.poll() is not None:
                raise RuntimeError(f"Cassandra ended by itself: {self.log.read_text()[-3000:]}")
            try:
                socket.create_connection((self.address, self.port), 1.0).close()
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise TimeoutError(f"Cassandra did not answer: {self.log.read_text()[-3000:]}")

    def kill(self) -> None:
        """SIGKILL, as a crash."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(timeout=STOP_LIMIT_S)
            self.process = None

    def pause(self) -> None:
        """SIGSTOP: it neither answers nor closes its connections."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """End a pause."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)


@dataclass(frozen=True)
class Cluster:
    """Where a cluster is reached, and its nodes where the tests started them."""

    hosts: tuple[str, ...]
    port: int
    nodes: tuple[Node, ...] = ()

    @property
    def location(self) -> str:
        """As an option names it, without a keyspace."""
        return f"cql://{','.join(self.hosts)}:{self.port}"


@pytest.fixture(scope="session")
def cassandra(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node for the session, or the server that `HEADRACE_CQL_HOSTS` names."""
    given = configured_cluster()
    if given is not None:
        yield given
        return
    with running_cluster(tmp_path_factory.mktemp("cassandra"), nodes=1) as cluster:
        yield cluster


def configured_cluster() -> Cluster | None:
    """The server that the environment names, if it does."""
    hosts = [host.strip() for host in os.environ.get(HOSTS_VARIABLE, "").split(",")]
    if not any(hosts):
        return None
    names = [host.rpartition(":")[0] or host for host in hosts]
    ports = {int(found[1]) for host in hosts if (found := re.search(r":(\d+)$", host))} or {9042}
    (port,) = ports
    return Cluster(tuple(names), port)


@contextmanager
def running_cluster(folder: Path, *, nodes: int, heap_mb: int = 512) -> Iterator[Cluster]:
    """A cluster of some nodes on 127.0.0.1 and up; skips the test where it cannot be had."""
    try:
        jars, program = cassandra_jars(), java()
    except Unavailable as why:
        pytest.skip(str(why))
    addresses = [f"127.0.0.{number}" for number in range(1, nodes + 1)]
    port, storage_port = free_port(), free_port()
    members = tuple(
        _node(folder / f"node-{n}", address, n, nodes, port, storage_port, program, jars, heap_mb)
        for n, address in enumerate(addresses)
    )
    with ExitStack() as opened:
        for node in members:
            opened.callback(node.kill)
            node.start()
            # One joins after the other, as Cassandra wants it.
            node.wait()
        yield Cluster(tuple(addresses), port, members)


def _node(
    folder: Path,
    address: str,
    number: int,
    nodes: int,
    port: int,
    storage_port: int,
    program: str,
    jars: Path,
    heap_mb: int,
) -> Node:
    folder.mkdir(parents=True)
    settings: dict[str, Any] = {
        "cluster_name": "headrace tests",
        "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
        "num_tokens": 1,
        "initial_token": str(-(2**63) + 1 + number * (2**64 // nodes)),
        "auto_bootstrap": False,
        "data_file_directories": [str(folder / "data")],
        "commitlog_directory": str(folder / "commitlog"),
        "saved_caches_directory": str(folder / "saved_caches"),
        "hints_directory": str(folder / "hints"),
        "cdc_raw_directory": str(folder / "cdc_raw"),
        # Acknowledged means on disk: with the periodic default a kill loses what was acknowledged.
        "commitlog_sync": "batch",
        "endpoint_snitch": "SimpleSnitch",
        "listen_address": address,
        "rpc_address": address,
        "native_transport_port": port,
        "storage_port": storage_port,
        "seed_provider": [
            {
                "class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
                "parameters": [{"seeds": "127.0.0.1"}],
            }
        ],
        "auto_snapshot": False,
        "disk_access_mode": "standard",
        "concurrent_reads": 8,
        "concurrent_writes": 16,
        "memtable_heap_space": f"{heap_mb // 4}MiB",
        "memtable_offheap_space": "64MiB",
        "file_cache_size": "32MiB",
        "key_cache_size": "8MiB",
        "hinted_handoff_enabled": True,
    }
    # Every JSON document is YAML.
    (folder / "cassandra.yaml").write_text(json.dumps(settings, indent=1))
    (folder / "logback.xml").write_text(_LOGBACK)
    command = [
        program,
        *(f"--add-exports={package}=ALL-UNNAMED" for package in _EXPORTS),
        *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENS),
        *("-XX:+UseSerialGC", f"-Xms{heap_mb}m", f"-Xmx{heap_mb}m", "-Xss512k"),
        *("-ea", "-XX:-UseBiasedLocking", "-XX:+IgnoreUnrecognizedVMOptions"),
        "-Djdk.attach.allowAttachSelf=true",
        "-Djava.net.preferIPv4Stack=true",
        f"-Djava.io.tmpdir={folder}",
        f"-Dlogback.configurationFile={folder / 'logback.xml'}",
        f"-Dcassandra.config=file://{folder / 'cassandra.yaml'}",
        f"-Dcassandra.storagedir={folder}",
        "-Dcassandra-foreground=yes",
        # Of a cluster in the open these pauses make sense; here they cost half a minute a node.
        "-Dcassandra.skip_wait_for_gossip_to_settle=0",
        "-Dcassandra.ring_delay_ms=1000",
        "-Dcassandra.superuser_setup_delay_ms=0",
        *("-cp", str(jars / "*"), "org.apache.cassandra.service.CassandraDaemon"),
    ]
    return Node(address, folder, command, port)
