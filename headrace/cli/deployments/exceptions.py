"""What can be wrong with the list of deployments, or with serving it."""

from __future__ import annotations

from pathlib import Path

from headrace.errors import ConfigurationError, HeadraceError


class PlanUnusable(ConfigurationError):
    """The file with the deployments cannot be read, or does not say what it must."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"the deployments in {path} cannot be used: {problem}",
            hint="Mend the file, or name another one with --deployments",
        )
        self.path = path
        self.problem = problem


class ServingFailed(HeadraceError):
    """The server is up, but the deployments are not served."""

    def __init__(self, problem: str, log_path: Path) -> None:
        super().__init__(
            f"the Prefect server is up, but its deployments are not served: {problem}",
            hint=f"See {log_path}; `headrace up` tries again, `headrace down` ends both",
        )
        self.problem = problem
        self.log_path = log_path


class SchedulesUnknown(HeadraceError):
    """The server does not say which schedules are on, or does not switch them."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"the schedules cannot be read or switched: {problem}",
            hint="The deployments are served; see the schedules in the UI, or repeat the command",
        )
