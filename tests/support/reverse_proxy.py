"""A reverse proxy on loopback that passes HTTP on, but no WebSockets."""

from __future__ import annotations

import http.client
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_websockets(upstream_port: int, *, answer: int | None = 404) -> Iterator[int]:
    """Have such a proxy for a `with` block; its port.

    Args:
        upstream_port: where requests go on to.
        answer: status for what asks for a WebSocket; None closes the connection instead.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            if self.headers.get("Upgrade"):
                self.close_connection = True
                if answer is not None:
                    self.send_response(answer)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                return
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            upstream = http.client.HTTPConnection("127.0.0.1", upstream_port, timeout=60)
            upstream.request(self.command, self.path, body, dict(self.headers))
            reply = upstream.getresponse()
            content = reply.read()
            upstream.close()
            self.send_response(reply.status)
            for name, value in reply.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                    self.send_header(name, value)
            if reply.status != 204:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = pass_on  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Be quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
