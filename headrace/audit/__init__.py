"""Is a lake complete and sound: what an audit finds, and how it is healed; free of Prefect.

`request` is what an audit is asked, `inspection` looks at parts, `parts`, `coverage` and
`checkpoint` judge what it saw, `against` holds it against the last manifest, `auditor` puts that
together for one product. `healing` repairs by steps that never delete a trade, `signing` makes a
manifest. `findings`, `report` and `signed` are the results, `wording` puts them in words.
`docs/audit.md` says what each finding means.
"""
