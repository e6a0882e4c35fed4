"""Extraction: from a Looker into a vault, nothing silently missing.

`request` is what a run is asked to do, `session` which unfinished one it goes on with. `job` does
one content type: `listing` reads its listings page by page and proves that they are whole, `items`
fetches what costs a request each, `deletion` looks up what is absent. What comes goes through
`writer`, which alone writes. `receipts`, `progress` and `wording` tell of it.
"""
