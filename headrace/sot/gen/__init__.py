"""Streams to try the log with: any number of symbols, any skew, any size, and faults on demand."""
