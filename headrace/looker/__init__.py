"""Looker: what there is to fetch, the client that fetches it, the vault that keeps it."""
