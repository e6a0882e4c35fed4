"""The checks, in the order of the report: what others rest on comes first."""

from headrace.doctor.checks.machine import check_disks, check_state, check_versions
from headrace.doctor.checks.network import check_clock, check_network
from headrace.doctor.checks.prefect import check_api, check_checkpoints, check_database
from headrace.doctor.checks.quota import check_breakers, check_quotas
from headrace.doctor.checks.settings import check_metrics, check_settings
from headrace.doctor.checks.storage import check_lake, check_leases
from headrace.doctor.runner import Check

CHECKS = (
    Check("settings", check_settings),
    Check("versions", check_versions),
    Check("state", check_state),
    Check("disk", check_disks),
    Check("network", check_network),
    Check("server", check_api),
    Check("database", check_database),
    Check("checkpoints", check_checkpoints),
    Check("clock", check_clock),
    Check("quota", check_quotas),
    Check("breaker", check_breakers),
    Check("leases", check_leases),
    Check("lake", check_lake),
    Check("metrics", check_metrics),
)

__all__ = ["CHECKS"]
