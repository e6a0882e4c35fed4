"""Runs whose process is gone: Prefect hears of it from others, for they cannot say so themselves.

Prefect's own server never calls such a run crashed. A lease names the run for which it was taken,
and its store can prove on this machine that its process is gone (`headrace.leases.this_machine`):
then the run is called crashed, by the next run that takes the lease, and by what `headrace up`
serves, which looks twice a minute.
"""

from __future__ import annotations

import logging
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import StateType
from prefect.exceptions import ObjectNotFound
from prefect.states import Crashed

from headrace.leases import Holder, LeaseStore
from headrace.leases.this_machine import Liveness
from headrace.prefect_api.reachable import API_ERRORS, require_api

log = logging.getLogger(__name__)

#: Types of states that a run can be left in.
AT_WORK = (StateType.PENDING, StateType.RUNNING, StateType.CANCELLING)
#: What the state of such a run says.
MESSAGE = (
    "The process that ran it is gone (killed, or out of memory); what it had stored is kept, and "
    "the next run goes on from there"
)
#: Longest wait for an answer of the API: a run waits for it, too.
_TIMEOUT_S = 5.0

#: Ids of runs that need not be looked at again.
_settled: set[str] = set()


def conclude_run_of(holder: Holder) -> bool:
    """Call the run crashed for which a process held a lease that is proven to be gone.

    The run of a deployment is left to what runs it: its id may be that of a new attempt, which
    lives. So is what has ended. An API that does not answer is no error.

    Args:
        holder: of the lease, its process gone.

    Returns:
        Whether the run was at work, and is now called crashed.
    """
    if holder.run_id in _settled:
        return False
    try:
        run_id = UUID(holder.run_id)
    except ValueError:  # held for something else than a flow run
        return False
    _settled.add(holder.run_id)
    try:
        require_api()
        with get_client(sync_client=True, httpx_settings={"timeout": _TIMEOUT_S}) as client:
            run = client.read_flow_run(run_id)
            if run.deployment_id is not None or run.state is None or run.state.type not in AT_WORK:
                return False
            client.set_flow_run_state(run_id, Crashed(message=MESSAGE), force=True)
    except ObjectNotFound:
        return False
    except API_ERRORS as error:
        _settled.discard(holder.run_id)
        log.info("run %s is gone, and the Prefect API does not know: %s", holder.run_id, error)
        return False
    log.warning("the process of run %s is gone; Prefect calls it crashed", run.name)
    return True


def conclude_runs_of_the_dead(leases: LeaseStore) -> list[str]:
    """Do so for every lease whose holder is gone; the ids of the runs that are now called crashed.

    Raises:
        HeadraceError: the leases cannot be read.
    """
    holders = [state.holder for state in leases.list() if state.holder]
    gone = [each for each in holders if leases.liveness(each) is Liveness.GONE]
    return [each.run_id for each in gone if conclude_run_of(each)]
