"""Measurements of the quota, with the stock pyrate-limiter bucket beside it."""
