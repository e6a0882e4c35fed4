"""The embedded store: append-only files of compressed blocks, durable when acknowledged."""
