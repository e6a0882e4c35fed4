"""From an unsharded log, one chain over all symbols, to the sharded one; and back, until the end.

The phases, kept in the old log itself, so that every writer sees them in the transaction in which
it writes:

    old    only the old log is written
    dual   both are written, the old one first; reads are from the old one
    new    both are written, and acknowledged when both are durable; reads are from the new one
    ended  only the new one is written; the old one stays as it is, and takes nothing more

`begin` leads from old to dual, `switch` from dual to new (after everything was compared), `back`
from new to dual, `end` from new to ended. Each may be repeated; a kill anywhere harms nothing.
"""
