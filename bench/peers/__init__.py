"""Headrace beside what one would use instead: the same work on the same simulated servers.

`run` measures and saves, `table` writes the tables of docs/peers.md from what was saved. A job
(`trades`, `looker`, `limiters`, `log`) says how each peer is started and what it left behind;
`scripts` holds what had to be written around a peer, `requirements` what each one's own virtual
environment is made of.
"""
