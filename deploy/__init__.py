"""Headrace on many machines: one topology, under Docker (compose.yaml) or as processes (local)."""
