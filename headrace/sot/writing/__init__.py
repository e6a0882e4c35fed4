"""From a stream of records to acknowledged blocks: routing, shards, symbols, commits, reports."""
