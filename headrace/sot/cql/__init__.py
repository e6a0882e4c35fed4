"""The log in a CQL store: Apache Cassandra or ScyllaDB, where it outgrows the machine."""

from headrace.sot.cql.session import CqlSettings
from headrace.sot.cql.store import CqlStore, open_cql

__all__ = ["CqlSettings", "CqlStore", "open_cql"]
