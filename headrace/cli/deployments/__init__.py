"""The deployments of `prefect.yaml`, served on this machine by `headrace up`.

`prefect deploy --all` reads the same file: it is the only list. The parts, in the order in which
they run:

- `plan`: the file, read and checked;
- `serving`: what `up` starts beside the managed server, and how it waits until that is ready;
- `switches`: schedules and triggers, on or off;
- `supervisor`: that process. It restarts the next one when it dies, and leaves nothing behind;
- `runner`: registers deployments, blocks and alarms, then starts the runs that are due;
- `blocks_and_alarms`: blocks and alarms on the server;
- `registering`, `triggers`: deployments, schedules and triggers on the server; runs that a dead
  runner left behind.

What supervisor and runner report to `up` and `status` is a `ServingNote` in the state folder. Only
`runner`, `blocks_and_alarms`, `registering` and `triggers` import Prefect.
"""
