"""Data quality of a lake: are the trades that are stored what trades should be, and fresh.

- `request`: what a check is asked, and its bounds;
- `rows`: what can be wrong with rows, looked at a table at a time;
- `checker`: all checks of one product;
- `layers`: the unified table beside the raw layer;
- `report`: breaches, and what a run says of them.

An audit asks whether what the exchange has is stored; a check whether what is stored is plausible.
"""
