"""Requests with a time to live, delivered over one API key or many; none is lost or counted twice.

    producer → Delivery.submit → Journal.accept → RequestQueue → workers → KeyedClient → the server
                    ↑ waits while the queue is full      ↑ retries ahead of new ones

Read the modules in this order:

1. `model`: one request, and the outcomes in which it can end: success, expired, graveyard.
2. `journal`: a durable file with every request that was accepted and has not ended, and the
   graveyard. A run goes on from it after a kill.
3. `queue`: what waits in this process; bounded.
4. `client`: one attempt: a permit, its key and nonce, the answer, and what that means.
5. `delivery`: the workers, and what becomes of a request after each attempt.
6. `benchmark`: counters, and the line that is written every five seconds.

`sources` reads requests from a file or makes them; `request` and `report` are those of the flow
`keyed_requests`.
"""
