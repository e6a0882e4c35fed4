"""Settings of this machine; their model is imported when they are first asked for, not for help."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.lazy_imports import deferred

if TYPE_CHECKING:
    from headrace.settings.model import Settings

__all__ = ["Settings", "load_settings"]

__getattr__ = deferred(__name__, {"model": "Settings"})


def load_settings() -> Settings:
    """The settings that the environment and the files say at this moment.

    Raises:
        ConfigurationError: naming the variable, or the line of a file, that cannot be used.
    """
    from headrace.settings.model import read_settings

    return read_settings()
