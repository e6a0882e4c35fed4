"""Is what the store holds what was written to it: recomputed from content, record by record."""
