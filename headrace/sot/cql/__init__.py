"""The log in a CQL store: Apache Cassandra or ScyllaDB, where it outgrows the machine."""

from headrace.sot.cql.opening import open_cql
from headrace.sot.cql.settings import CqlSettings
from headrace.sot.cql.store import CqlStore

__all__ = ["CqlSettings", "CqlStore", "open_cql"]
