"""Bounds of what is said in seconds."""

#: Some thirty years, which arithmetic in nanoseconds of 64 bits can hold. No setting is longer, and
#: a limit from here on, infinity among them, is none.
LONGEST_S = 1e9
