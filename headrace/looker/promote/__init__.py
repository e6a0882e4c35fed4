"""A folder of one Looker, brought into another: from where content is made to where it is used.

`reading` brings what lies in and below the folder into the vault of the first Looker; `references`
says what of the second one it depends on; `plan` compares the two and writes nothing; `promoter`
does what the plan says, by a restore.
"""
