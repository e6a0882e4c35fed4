"""Whether every setting can be used, and whether metrics can go where one of them says."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from headrace.doctor.checks.machine import existing
from headrace.doctor.runner import Finding, Target, ok, problem, warning
from headrace.errors import ConfigurationError
from headrace.extras import ExtraMissing, require
from headrace.metrics import MetricsSettingError, parse_sink
from headrace.pull.request import BLOCK_PREFIX
from headrace.quota import parse_rates
from headrace.settings import Settings
from headrace.settings.files import SettingsFile, places, read_files
from headrace.wire.exceptions import RequestError
from headrace.wire.transport import Transport, check_base_url

_SECRETS = {"api_keys"}


def check_settings(target: Target) -> Iterator[Finding]:
    """Each setting that has a form, through the parser that a run sends it through."""
    parsers: tuple[tuple[str, str, Callable[[str], object]], ...] = (
        ("HEADRACE_RATE", target.rate, parse_rates),
        ("HEADRACE_COINBASE_URL", target.base_url, check_base_url),
        ("HEADRACE_METRICS", target.settings.metrics, parse_sink),
    )
    wrong = False
    files = read_files(Settings.model_fields)
    yield from map(_of_settings_file, files)
    for name, value, parse in parsers:
        if value.startswith(BLOCK_PREFIX):
            continue
        try:
            parse(value)
        except ConfigurationError as error:
            wrong = True
            said = error.message if name in error.message else f"{name}: {error.message}"
            yield problem(said, error.hint)
    if not wrong:
        yield ok(f"{target.base_url} at {target.rate} into {target.lake}")
        if not files:
            yield ok(f"no settings file: {' and '.join(map(str, places()))} are not there")


def _of_settings_file(file: SettingsFile) -> Finding:
    if file.values.keys() & _SECRETS and file.path.stat().st_mode & 0o044:
        return warning(
            f"{file.path} holds secrets, and others may read it", f"chmod go-r {file.path}"
        )
    return ok(f"{file.path} is read: {', '.join(file.values) or 'it says nothing'}")


def check_metrics(target: Target) -> Iterator[Finding]:
    """The folder of the text file, or the credentials; nothing is sent. No metric stops a run."""
    try:
        kind, where = parse_sink(target.settings.metrics)
    except MetricsSettingError:
        yield ok("not checked: see settings")
        return
    if kind == "none":
        yield ok("metrics go nowhere (HEADRACE_METRICS)")
    elif kind == "prometheus":
        yield _of_file(Path(where).expanduser().absolute())
    elif kind == "otlp":
        yield _of_collector(where)
    else:
        yield _of_credentials(where)


def _of_file(path: Path) -> Finding:
    folder = existing(path.parent)
    if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
        return ok(f"metrics go to {path}")
    return warning(f"{path} cannot be written in {folder}", "Give this user the right to write")


def _of_collector(url: str) -> Finding:
    try:
        require("otel")
    except ExtraMissing as error:
        return warning(error.message, error.hint)
    parts = urlsplit(url)
    try:
        with Transport(f"{parts.scheme}://{parts.netloc}") as transport:
            transport.check_reachable()
    except RequestError as error:
        return warning(f"metrics do not reach {url}: {error.message}", "Start the collector")
    return ok(f"metrics go to {url}")


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
