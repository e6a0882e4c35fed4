"""Signed statements of what a lake holds, chained, and what changed since; free of Prefect.

`statement` is what is stated, `chain` numbered signed files, `lakes` where those of a lake are,
`comparison` what changed, `anchored` heads that others keep. Audits make and use them
(`headrace.audit.signing`, `headrace.audit.against_manifest`). docs/manifests.md is the format.
"""
