"""From a vault back into a Looker: the same one, or an empty one somewhere else.

Start reading at `restorer`. `plan` says what is restored in which order, `writer` how an item of
each type is made and changed, `fields` which of its fields are sent, and `state` what a killed run
knows: which id there an id of the vault has become.
"""

from headrace.looker.restore.plan import ItemReport, RestoreOutcome, RestoreReport, Step, plan
from headrace.looker.restore.restorer import Restorer
from headrace.looker.restore.state import RestoreFailure, RestoreState

__all__ = [
    "ItemReport",
    "RestoreFailure",
    "RestoreOutcome",
    "RestoreReport",
    "RestoreState",
    "Restorer",
    "Step",
    "plan",
]
