"""Pulling a source into a lake: request, plan, job, checkpoint, receipt; free of Prefect.

`request` is what a run is asked, `planner` what that means for one product, `job` does it,
`ledger` keeps its books, `checkpoints` says what a checkpoint is, `receipts` what became of it all,
`progress` and `wording` how people see it.
"""
