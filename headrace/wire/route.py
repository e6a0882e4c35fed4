"""The way to a server: its origin, the proxy between, and the authorities that are trusted.

The environment says all of it to every client. `HTTPS_PROXY` and `HTTP_PROXY` by the scheme of the
server, else `ALL_PROXY`; `NO_PROXY` names who is reached directly: hosts, domains with all below
them, either with a port, addresses, networks (10.0.0.0/8), or `*`. Names in small letters go first.
What the system's settings say counts where Python knows them.

`localhost`, 127.0.0.1 and ::1 are never reached through a proxy: servers of our own listen there,
and a proxy on another machine cannot reach them.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
from base64 import b64encode
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from headrace.errors import ConfigurationError
from headrace.logs.redaction import hide

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme (http or https), host (without brackets) and port of a server."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> Origin:
        """The origin of an absolute URL.

        Raises:
            ValueError: if it is no http or https URL with a host.
        """
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise ValueError("not an http or https URL with a host")
        parts.hostname.encode("idna")
        if parts.port == 0:
            raise ValueError("port 0 is no port")
        return cls(parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme])

    @property
    def host_header(self) -> str:
        """The value of `Host`: the port only if it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host.encode("idna").decode()
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


#: Variables that name a file or a folder of certificates. OpenSSL reads the first by itself.
TRUST_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
_HINT = "Give a file of certificates in PEM form, or unset it"


def trusted_files(*more: str) -> dict[str, Path]:
    """The files and folders of certificates that the environment names, by variable.

    Args:
        more: variables beside the usual ones.

    Raises:
        ConfigurationError: there is no such file.
    """
    found = {
        name: Path(text) for name in (*TRUST_VARIABLES, *more) if (text := os.environ.get(name))
    }
    for name, path in found.items():
        if not path.exists():
            raise ConfigurationError(f"{name} names {path}, which does not exist", hint=_HINT)
    return found


def tls_context(*more: str, verify: bool = True) -> ssl.SSLContext:
    """A context that trusts the system's authorities and those that the environment names.

    Args:
        more: variables beside `SSL_CERT_FILE` (which takes the place of the system's own) and
            `REQUESTS_CA_BUNDLE`.
        verify: whether a certificate must be good and its host right.

    Raises:
        ConfigurationError: a file of certificates cannot be read.
    """
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    for name, path in trusted_files(*more).items():
        try:
            if path.is_dir():
                context.load_verify_locations(capath=path)
            else:
                context.load_verify_locations(cafile=path)
        except (ssl.SSLError, OSError) as error:
            raise ConfigurationError(
                f"{name} names {path}, which holds no certificates ({error})", hint=_HINT
            ) from error
    return context


_OURS = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Proxy:
    """A forward proxy over HTTP.

    Args:
        origin: where it listens.
        variable: which setting names it, for messages.
        authorization: value of the header `Proxy-Authorization`; empty for none.
    """

    origin: Origin
    variable: str
    authorization: str = field(default="", repr=False)

    def __str__(self) -> str:
        """Its address and who named it, without the credentials."""
        return f"the proxy {self.origin.scheme}://{self.origin.host_header} ({self.variable})"

    @property
    def headers(self) -> bytes:
        """What a request to the proxy has beside the server's headers."""
        if not self.authorization:
            return b""
        return f"Proxy-Authorization: {self.authorization}\r\n".encode("ascii")

    def forwarded(self, request: bytes, origin: Origin) -> bytes:
        """A request to an http server as the proxy wants it: with the whole URL."""
        method, target, rest = request.split(b" ", 2)
        line, fields = rest.split(b"\r\n", 1)
        url = b"http://" + origin.host_header.encode("ascii") + target
        return b"%s %s %s\r\n%s%s" % (method, url, line, self.headers, fields)


def proxy_for(origin: Origin) -> Proxy | None:
    """The proxy through which a server is reached; None for directly.

    Raises:
        ConfigurationError: the proxy's URL cannot be used. The message does not repeat it, since it
            may hold a password.
    """
    set_ = getproxies()
    kind = origin.scheme if origin.scheme in set_ else "all"
    if kind not in set_ or _is_direct(origin, set_.get("no", "")):
        return None
    return _read(set_[kind], f"{kind.upper()}_PROXY")


def check_proxies() -> None:
    """Look at the proxies that are set, before a client that is not ours does, in its own words.

    Raises:
        ConfigurationError: a URL that no client can use. The message does not repeat it, since it
            may hold a password.
    """
    for kind, url in getproxies().items():
        if kind in ("http", "https", "all"):
            _parse(url, f"{kind.upper()}_PROXY", ("http", "https", "socks5", "socks5h"))


def keep_loopback_direct(environ: MutableMapping[str, str]) -> None:
    """Where a proxy is set, name this machine in `NO_PROXY`, for clients that are not ours.

    Prefect's client and boto3 would ask the proxy for the server on this machine.
    """
    if not any(name.lower() in ("http_proxy", "https_proxy", "all_proxy") for name in environ):
        return
    for name in ("no_proxy", "NO_PROXY") if "no_proxy" in environ else ("NO_PROXY",):
        named = [entry.strip() for entry in environ.get(name, "").split(",") if entry.strip()]
        if "*" not in named:
            missing = [host for host in _OURS if host not in named]
            environ[name] = ",".join([*named, *missing])


def _is_direct(origin: Origin, no_proxy: str) -> bool:
    host = origin.host
    if host in _OURS or proxy_bypass(f"{host}:{origin.port}"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return any(address in network for network in _networks(no_proxy))


def _networks(no_proxy: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    found = []
    for entry in no_proxy.split(","):
        try:
            found.append(ipaddress.ip_network(entry.strip().strip("[]"), strict=False))
        except ValueError:
            continue  # a name, with which `proxy_bypass` has dealt
    return found


def _parse(url: str, variable: str, schemes: tuple[str, ...]) -> tuple[SplitResult, Origin]:
    hint = f"Set {variable} to http://[user:password@]host:port, or unset it"
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        origin = Origin.of(f"http://{parts.netloc.rpartition('@')[2]}")
    except ValueError as error:
        raise ConfigurationError(f"{variable} is no URL with a host", hint=hint) from error
    if parts.scheme not in schemes:
        raise ConfigurationError(
            f"{variable} names a proxy that is spoken to by {parts.scheme[:20]}, which is not "
            "supported",
            hint=hint,
        )
    return parts, origin


def _read(url: str, variable: str) -> Proxy:
    parts, origin = _parse(url, variable, ("http",))
    if parts.username is None:
        return Proxy(origin, variable)
    user, password = unquote(parts.username), unquote(parts.password or "")
    hide(parts.password, password)
    pair = b64encode(f"{user}:{password}".encode()).decode("ascii")
    return Proxy(origin, variable, f"Basic {pair}")
