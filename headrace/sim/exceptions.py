"""What can go wrong with a simulated server."""

from __future__ import annotations

from headrace.errors import ConfigurationError, HeadraceError, PlaceError


class SpecError(ConfigurationError):
    """A product, rate, latency or fault cannot be read.

    Attributes:
        text: what was written.
    """

    def __init__(self, what: str, text: str, reason: str, *, hint: str = "") -> None:
        super().__init__(f"{what} {text!r}: {reason}", hint=hint)
        self.text = text


class PortInUseError(ConfigurationError):
    """Another process listens on the wanted port.

    Attributes:
        port: the port.
    """

    def __init__(self, port: int, host: str) -> None:
        super().__init__(
            f"port {port} of {host} is taken",
            hint="Name another one, or port 0 for any that is free",
        )
        self.port = port


class HostUnusableError(PlaceError, ConfigurationError):
    """The address to listen on is none of this machine.

    Attributes:
        where: the address.
    """

    said = "nothing can listen on {where!r}: {reason}"
    way_out = "Name an address of this machine: 127.0.0.1, or 0.0.0.0 for all it has"


class ServerStartError(HeadraceError):
    """The server's process ended, or wrote nothing, before it was ready.

    Attributes:
        returncode: its exit code, `None` when it still ran.
    """

    def __init__(self, returncode: int | None, said: str) -> None:
        how = "wrote nothing in time" if returncode is None else f"ended with {returncode}"
        super().__init__(f"the simulated server {how}: {said.strip() or 'no output'}")
        self.returncode = returncode


class ControlError(HeadraceError):
    """A control endpoint of a simulated server refused a command.

    Attributes:
        status: the HTTP status it answered.
    """

    def __init__(self, command: str, status: int, message: str) -> None:
        super().__init__(f"{command} answered {status}: {message}")
        self.status = status


class UnknownCommand(Exception):
    """The control endpoint has no such command."""
