"""Which content of a Looker does not run any more.

`request` is what is asked for, `validator` Looker's own content validation and what running the
queries says beside it, `report` what a run says of both.
"""
