"""Headrace: everything a rate-limited API will give, exactly once, as fast as its quota allows."""

__version__ = "0.1.0"
