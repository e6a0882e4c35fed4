"""The unified lake: one typed Delta table of the trades of all products."""
