"""The checks, in the order of the report: what others rest on comes first."""

from headrace.doctor.checks.api import look_at_api
from headrace.doctor.checks.breaker import look_at_breakers
from headrace.doctor.checks.checkpoints import look_at_checkpoints
from headrace.doctor.checks.clock import look_at_clock
from headrace.doctor.checks.database import look_at_database
from headrace.doctor.checks.disk import look_at_disks
from headrace.doctor.checks.lake import look_at_lake
from headrace.doctor.checks.leases import look_at_leases
from headrace.doctor.checks.metrics import look_at_metrics
from headrace.doctor.checks.network import look_at_network
from headrace.doctor.checks.quota import look_at_quotas
from headrace.doctor.checks.settings import look_at_settings
from headrace.doctor.checks.state import look_at_state
from headrace.doctor.checks.versions import look_at_versions
from headrace.doctor.model import Check

CHECKS = (
    Check("settings", look_at_settings),
    Check("versions", look_at_versions),
    Check("state", look_at_state),
    Check("disk", look_at_disks),
    Check("network", look_at_network),
    Check("server", look_at_api),
    Check("database", look_at_database),
    Check("checkpoints", look_at_checkpoints),
    Check("clock", look_at_clock),
    Check("quota", look_at_quotas),
    Check("breaker", look_at_breakers),
    Check("leases", look_at_leases),
    Check("lake", look_at_lake),
    Check("metrics", look_at_metrics),
)

__all__ = ["CHECKS"]
