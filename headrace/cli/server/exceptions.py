"""What can go wrong with the processes that Headrace keeps for itself."""

from __future__ import annotations

from pathlib import Path

from headrace.errors import ConfigurationError, HeadraceError


class ManagedProcessError(HeadraceError):
    """A process of ours did not do what it was told."""

    def __init__(self, name: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.name = name


class ProcessStartError(ManagedProcessError):
    """A process ended, or kept silent, before it was ready."""

    def __init__(self, name: str, what: str, *, log_path: Path, last_lines: list[str]) -> None:
        shown = "".join(f"\n    {line}" for line in last_lines) or "\n    (the log is empty)"
        super().__init__(
            name, f"{name} {what}", hint=f"The end of its log {log_path} reads:{shown}"
        )
        self.log_path = log_path
        self.last_lines = last_lines


class ProcessStopError(ManagedProcessError):
    """A process of ours is still there after SIGTERM, SIGKILL and a wait."""

    def __init__(self, name: str, pids: list[int]) -> None:
        numbers = ", ".join(map(str, pids))
        super().__init__(
            name,
            f"{name} (pid {numbers}) does not end, not even after SIGKILL",
            hint="It may hang in the kernel on a disk; look at it with `ps -o pid,stat,wchan`",
        )
        self.pids = pids


class PortTakenError(ConfigurationError):
    """The port that was asked for is in use, or not ours to open."""

    def __init__(self, port: int, reason: str) -> None:
        super().__init__(
            f"port {port} on 127.0.0.1 cannot be used ({reason})",
            hint="Choose another with --port, or leave it out to take any free one",
        )
        self.port = port


class ServerElsewhereError(ConfigurationError):
    """The server already runs, but not on the port that was asked for."""

    def __init__(self, port: int, asked_for: int) -> None:
        super().__init__(
            f"the Prefect server already runs on port {port}, not on {asked_for}",
            hint="Run `headrace down` first to move it",
        )
        self.port = port


class StateFolderError(ConfigurationError):
    """The state folder cannot be made or written."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"the state folder {path} cannot be used ({reason})",
            hint="Point HEADRACE_HOME to a folder of your own on a local disk",
        )
        self.path = path
