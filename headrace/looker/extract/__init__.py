"""Extraction: from a Looker into a vault, nothing silently missing.

`request` is what a run is asked to do, `context` what its parts share and which unfinished session
it resumes. `job` does one content type: `listing` reads its listings page by page and proves that
they are whole (`pages` has the arithmetic), `items` fetches what costs a request each and looks up
what is absent. What comes goes through `writer`, which alone writes. `progress`, `receipts` and
`checkpoint` report it.
"""
