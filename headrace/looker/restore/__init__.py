"""From a vault back into a Looker: the same one, or an empty one somewhere else.

Start reading at `restorer`. `writing` and `parts` say how each type is made and changed, `ids`
which id there an id of the vault has become, `books` what a killed run knows.
"""

from headrace.looker.restore.books import Books, RestoreFailure
from headrace.looker.restore.outcome import How, Outcome, Restored
from headrace.looker.restore.planning import Step, plan
from headrace.looker.restore.restorer import Restorer

__all__ = ["Books", "How", "Outcome", "RestoreFailure", "Restored", "Restorer", "Step", "plan"]
