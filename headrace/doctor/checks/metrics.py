"""Whether metrics can go where the settings say."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from headrace.doctor.checks.state import existing
from headrace.doctor.model import Examined, Finding, ok, warning
from headrace.metrics import MetricsSettingError, check_metrics


def look_at_metrics(examined: Examined) -> Iterator[Finding]:
    """The folder of the text file, or the credentials; nothing is sent. No metric stops a run."""
    try:
        kind, where = check_metrics(examined.settings.metrics)
    except MetricsSettingError:
        yield ok("not looked at: see settings")
        return
    if kind == "none":
        yield ok("metrics go nowhere (HEADRACE_METRICS)")
    elif kind == "prometheus":
        yield _of_file(Path(where).expanduser().absolute())
    else:
        yield _of_credentials(where)


def _of_file(path: Path) -> Finding:
    folder = existing(path.parent)
    if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
        return ok(f"metrics go to {path}")
    return warning(f"{path} cannot be written in {folder}", "Give this user the right to write")


def _of_credentials(namespace: str) -> Finding:
    import boto3  # only here: it is slow to load

    session = boto3.session.Session()
    if session.get_credentials() is None:
        return warning(
            f"metrics for CloudWatch namespace {namespace}, but no AWS credentials",
            "Set AWS_PROFILE, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a role",
        )
    if session.region_name is None:
        return warning(f"metrics for CloudWatch namespace {namespace}, but no region",
                       "Set AWS_REGION")  # fmt: skip
    return ok(f"metrics go to CloudWatch namespace {namespace} in {session.region_name}")
