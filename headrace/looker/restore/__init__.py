"""From a vault back into a Looker: the same one, or an empty one somewhere else.

`plan` says what is restored in which order, `restorer` does it, `writer` makes and changes an item
of each type and `parts` what stands inside of it, `memberships` sets who is in which group and has
which role; `fields` says which fields are sent, `report` what became of each item, and `state` what
a killed run knows: which id there an id of the vault has become.
"""
