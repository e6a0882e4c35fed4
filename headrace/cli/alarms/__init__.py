"""Alarms: Prefect automations, shipped as code.

- `catalogue`: what there is to be alarmed about, free of Prefect;
- `installing`: the same as automations of a server, installed as often as you like;
- `command`: `headrace alarms …`.
"""
