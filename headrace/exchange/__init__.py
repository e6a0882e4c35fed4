"""The exchange: one client, exact pages, plans on the id grid.

From the wire upwards: `transport` sends one request within a total time limit, `client` repeats it
until it is answered or refused (each attempt with a permit of its own), `pages` turns a body into
exact rows, `walk` strings pages together into an answered range, `history` finds where a product
begins and which id a time means, `planning` cuts what is missing into chunks. Only `transport` and
`client` know HTTP; `pages` and `planning` are pure.
"""
