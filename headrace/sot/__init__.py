"""The source-of-truth log: per-symbol hash chains, sharded writers, two kinds of store."""
