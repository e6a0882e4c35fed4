"""Pulling a source into a lake: request, plan, job, commits, report; free of Prefect.

- `request` is what a run is asked; `admission` answers at once whether it may begin;
- `planner` says what that means for one product, from the ends of its history (`history_ends`);
- `job` does it: `fetching` walks one chunk within a `memory_budget`, `failures` says when to end,
  `ledger` keeps count, `commits` is what the run knows, merges (`upkeep`) and saves it;
- `checkpoints` are what is saved, `rebuild` makes them from a lake alone;
- `product_leases` say who may do what; `spread` divides a run over child runs;
- `report` and `metrics` are what people see of it.
"""
