"""How a run of a flow reaches a Looker."""

from __future__ import annotations

from urllib.parse import urlsplit

from blocks.quota import Quota
from blocks.resolve import looker_of, looker_quota_of, quota_place
from headrace.logs import hide
from headrace.looker.client import LookerClient, LookerConnection, open_client
from headrace.looker.common_parameters import LookerAccess
from headrace.quota import Gate
from headrace.stopping import StopEvent
from tasks.kernel import Opening


def connection_of(request: LookerAccess) -> LookerConnection:
    """Where the Looker of a request is; from now on no log says its secret.

    Raises:
        ConfigurationError: there is no such block, or something is missing.
    """
    connection = looker_of(request.base_url).within(request.timeout_s)
    hide(connection.client_secret.get_secret_value())
    return connection


def connect(
    request: LookerAccess,
    connection: LookerConnection,
    begun: Opening,
    *,
    workers: int,
    stop: StopEvent,
) -> tuple[Quota, Gate, LookerClient]:
    """The quota of a Looker, its gate, and a client that is logged in; closed with the run.

    Raises:
        LoginRefused: the credentials are wrong.
        ConnectionFailed: nothing listens at the address.
    """
    settings = begun.settings
    quota = looker_quota_of(request.rate, breaker_cooldown_s=settings.breaker_cooldown_s)
    host = urlsplit(connection.base_url).netloc.rpartition("@")[2]
    gate = quota.gate(quota_place(settings), host, outage_limit_s=request.outage_limit_s)
    begun.keep_open(gate)
    client = open_client(connection, gate, workers=workers, stop=stop)
    client.check_reachable()
    begun.resources.callback(client.close)
    client.login()
    return quota, gate, client
