"""The deployments of `prefect.yaml`, served on this machine by `headrace up`.

`prefect deploy --all` reads the same file: it is the only list. The parts, in the order in which
they run:

- `plan`: the file, read and checked;
- `serving`: what `up` starts beside the managed server, how it waits until that is ready, and the
  schedules;
- `supervisor`: that process. It restarts the next one when it dies, and leaves nothing behind;
- `runner`: registers deployments, blocks and alarms, then starts the runs that are due;
- `furnishing`: blocks and alarms on the server;
- `registering`: deployments and schedules on the server; runs that a dead runner left behind.

What supervisor and runner report to `up` and `status` is a `ServingNote` in the state folder. Only
`runner`, `furnishing` and `registering` import Prefect.
"""
