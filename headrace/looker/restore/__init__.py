"""From a vault back into a Looker: the same one, or an empty one somewhere else.

`restorer` plans what is restored in which order and does it, `writer` makes and changes an item of
each type, `fields` says which of its fields are sent, and `state` what a killed run knows: which id
there an id of the vault has become.
"""
