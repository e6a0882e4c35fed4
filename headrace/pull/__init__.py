"""Pulling a source into a lake: request, plan, job, checkpoint, receipt; free of Prefect.

`request` is what a run is asked, `planner` what that means for one product, `job` does it
(`opening`: what is known at its beginning; `fetching`: one chunk; `refreshing`: what is stored
already), `ledger` keeps count, `checkpoints` says what a checkpoint is, `receipts` what became
of it all, `progress` and `wording` how people see it.
"""
