"""A Prefect profile in which everything is set otherwise than by default."""

from __future__ import annotations

from pathlib import Path

#: Every setting that could change what a run does or says.
OTHER_SETTINGS = {
    "PREFECT_FLOWS_DEFAULT_RETRIES": "2",
    "PREFECT_FLOWS_DEFAULT_RETRY_DELAY_SECONDS": "1",
    "PREFECT_TASKS_DEFAULT_RETRIES": "3",
    "PREFECT_TASKS_DEFAULT_RETRY_DELAY_SECONDS": "1",
    "PREFECT_TASKS_DEFAULT_NO_CACHE": "false",
    "PREFECT_TASKS_DISABLE_CACHING": "true",
    "PREFECT_TASKS_REFRESH_CACHE": "true",
    "PREFECT_TASKS_DEFAULT_PERSIST_RESULT": "true",
    "PREFECT_TASKS_RUNNER_THREAD_POOL_MAX_WORKERS": "1",
    "PREFECT_TASKS_RUNNER_PROCESS_POOL_MAX_WORKERS": "1",
    "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "true",
    "PREFECT_RESULTS_DEFAULT_SERIALIZER": "json",
    "PREFECT_RESULTS_DEFAULT_STORAGE_BLOCK": "local-file-system/not-there",
    "PREFECT_RESULTS_LOCAL_STORAGE_PATH": "/proc/not-there",
    "PREFECT_LOGGING_LOG_PRINTS": "true",
    "PREFECT_LOGGING_LEVEL": "ERROR",
    "PREFECT_LOGGING_EXTRA_LOGGERS": "headrace,tasks",
    "PREFECT_LOGGING_MARKUP": "true",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "error",
    "PREFECT_LOGGING_TO_API_BATCH_SIZE": "1000",
    "PREFECT_LOGGING_TO_API_MAX_LOG_SIZE": "100",
    "PREFECT_EVENTS_WORKER_MAX_QUEUE_SIZE": "1",
    "PREFECT_CLIENT_METRICS_ENABLED": "true",
    "PREFECT_DEPLOYMENTS_DEFAULT_WORK_POOL_NAME": "not-there",
    "PREFECT_RUNNER_PROCESS_LIMIT": "1",
    "PREFECT_RUNNER_POLL_FREQUENCY": "600",
    "PREFECT_RUNNER_SERVER_ENABLE": "true",
    "PREFECT_RUNNER_AUTO_INSTALL_DEPENDENCIES": "true",
}


def write_profile(path: Path, settings: dict[str, str]) -> Path:
    """A `profiles.toml` whose active profile has these settings."""
    lines = [f'{name} = "{value}"' for name, value in settings.items()]
    path.write_text("\n".join(['active = "team"', "[profiles.team]", *lines, ""]))
    return path
