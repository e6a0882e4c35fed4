"""Anchors: signed heads kept where the log's writer cannot rewrite them, and what fits them."""
