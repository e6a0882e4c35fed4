"""Every claim about speed, measured beside a baseline: `python -m bench [NAME...]`."""
