"""A simulated Looker on a real socket, for the real SDK: to test, measure and rehearse with.

    from headrace.sim.looker import SimulatedLooker, SimulatedLookerProcess

    with SimulatedLooker(counts={"dashboard": 5000}, big={"dashboard:17": 25_000_000}) as sim:
        sim.url                                  # "http://127.0.0.1:41233"
        sim.library.content("dashboard")         # {id: body}: what a perfect copy holds
        sim.library.edit("dashboard", "7", title="Renamed")
        sim.library.trash("look", "3")           # soft-deleted
        sim.library.remove("board", "2")         # gone
        sim.library.put("folder", "9", b'{"id": "9", "name": "../../x"}')
        sim.add_change("remove dashboard:7 after 3")
        sim.add_fault("error,status=500,type=look,id=7")

Logs in with `client_id` "headrace" and `client_secret` "simulated-secret" by default.
`SimulatedLookerProcess` is the same in a child process. Settings: see `LookerSettings`; the control
endpoint: `headrace.sim.looker.simulation`. Faults: `error` (in Looker's form), `revoke`, `slow`,
and the exchange's `respond`, `html`, `cut`, `reset`, `hang`, `drip`, `refuse`.
"""

from headrace.sim.looker.faults import LookerFault, parse_looker_fault
from headrace.sim.looker.library import Library
from headrace.sim.looker.settings import Change, LookerSettings, parse_change
from headrace.sim.looker.simulation import LookerSimulation, SimulatedLooker, SimulatedLookerProcess

__all__ = [
    "Change",
    "Library",
    "LookerFault",
    "LookerSettings",
    "LookerSimulation",
    "SimulatedLooker",
    "SimulatedLookerProcess",
    "parse_change",
    "parse_looker_fault",
]
