"""Evidence that others can check: signing keys, signed statements, Merkle proofs."""
