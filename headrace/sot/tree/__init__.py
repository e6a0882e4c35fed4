"""The Merkle tree over each symbol's digests: tiles, roots, proofs, heads over all symbols."""
