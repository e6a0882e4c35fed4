"""Where a connection goes: scheme, host and port."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

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
