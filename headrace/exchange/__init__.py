"""The exchange: one client, exact pages, plans on the id grid.

`source` is what the rest of the library asks of an API that serves trades. `client` is the one of a
Coinbase-Exchange API, over `headrace.wire`, with a permit for each attempt (`signing`: requests
that need a key). `pages` turns a body into exact rows (`times`), `walk` strings pages together into
an answered range, `proof` says what an answer proves and which answers are kept to show it,
`history` finds where a product begins and which id a time means, `planning` cuts what is missing
into chunks. `pages` and `planning` are pure.
"""
