"""Extraction: from a Looker into a vault, nothing silently missing.

`request` is what a run is asked to do, `context` what its parts share and which unfinished session
it resumes. `job` does one content type: `listing` reads its listings page by page, proves that they
are whole (`pages` has the arithmetic) and fetches what costs a request each. What comes goes
through `writer`, which alone writes. `progress` and `report` say how far it is and what it did.
"""
