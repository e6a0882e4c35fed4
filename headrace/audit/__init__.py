"""Is a lake complete and sound: what an audit finds, and how it is healed; free of Prefect.

`request` is what an audit is asked, `inspection` looks at parts, `parts` and `coverage` judge what
it saw, `recheck` asks again for holes of older versions, `against_manifest` holds it against the
last manifest, `auditor` puts that together for one product. `healing` repairs by steps that never
delete a trade, `signing` makes a manifest. `findings`, `report` and `sign_receipts` are the
results.
`docs/audit.md` says what each finding means.
"""
