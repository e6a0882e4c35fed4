"""The deployments of `prefect.yaml`, served on this machine by `headrace up`.

`prefect deploy --all` reads the same file: it is the only list. The parts, in the order in which
they are at work:

- `plan`: the file, read and checked;
- `serving`: what `up` starts beside the managed server, and how it waits until that is ready;
- `supervisor`: that process. It keeps the next one alive, and leaves nothing behind;
- `runner`: registers deployments, blocks and alarms, then starts the runs that are due;
- `registering`, `leftovers`: what the runner tells the server before it begins;
- `note`: what the two have to tell `up` and `status`.

Only `runner`, `registering` and `leftovers` import Prefect.
"""
