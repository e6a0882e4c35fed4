"""A proxy in front of an S3 server that misbehaves as a test asks, at the level of HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}


@dataclass
class Request:
    """One request as the proxy got it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Answer:
    """An answer given in place of the server's.

    Args:
        status: HTTP status; 0 closes the connection without a word.
        code: S3's code, put into an XML body.
        forward: let the server have the request first, and drop what it says.
        forward_half: let the server have half of the body and break off.
        delay_s: wait before answering.
    """

    status: int
    code: str = "InternalError"
    forward: bool = False
    forward_half: bool = False
    delay_s: float = 0.0


@dataclass
class Rule:
    """For the next `times` requests (None: all) that match, `answer`."""

    matches: Callable[[Request], bool]
    answer: Answer
    times: int | None = 1


@dataclass
class S3Proxy:
    """What the proxy is to do, and what it saw.

    Args:
        without: headers, in lower case, that it drops from requests and from answers.
    """

    upstream: str
    url: str = ""
    without: set[str] = field(default_factory=set)
    rules: list[Rule] = field(default_factory=list)
    seen: list[Request] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def script(
        self,
        method: str,
        *answers: Answer,
        key: str = "",
        times: int | None = 1,
        where: Callable[[Request], bool] = lambda _: True,
    ) -> None:
        """Answer requests of `method` on paths that contain `key` with `answers`, in turn."""

        def matches(request: Request) -> bool:
            return request.method == method and key in request.path and where(request)

        self.rules += [Rule(matches, answer, times) for answer in answers]

    def requests(self, method: str, key: str = "") -> list[Request]:
        """The requests seen so far, of one method and with `key` in their paths."""
        return [r for r in self.seen if r.method == method and key in r.path]

    def answer_for(self, request: Request) -> Answer | None:
        """What to say instead of the server, or None to let it speak."""
        with self._lock:
            self.seen.append(request)
            for rule in self.rules:
                if rule.times != 0 and rule.matches(request):
                    if rule.times is not None:
                        rule.times -= 1
                    return rule.answer
        return None


@contextmanager
def s3_proxy(upstream: str, *, port: int = 0) -> Iterator[S3Proxy]:
    """A proxy in front of `upstream` on a loopback port (0: a free one), until the block ends."""
    proxy = S3Proxy(upstream)

    class Handler(_Handler):
        state = proxy

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    state: S3Proxy
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Stay silent."""

    def _serve(self) -> None:
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = Request(self.command, self.path, dict(self.headers.items()), body)
        answer = self.state.answer_for(request)
        if answer is None:
            self._relay(request)
            return
        if answer.forward:
            self._ask(request, len(request.body))
        if answer.forward_half:
            self._ask(request, len(request.body) // 2)
        self.state.closing.wait(answer.delay_s)
        self._say(answer)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _serve  # noqa: N815

    def _say(self, answer: Answer) -> None:
        if answer.status == 0:
            self.close_connection = True
            return
        content = f"<Error><Code>{answer.code}</Code><Message>scripted</Message></Error>".encode()
        self._send(answer.status, {"Content-Type": "application/xml"}, content)

    def _relay(self, request: Request) -> None:
        said = self._ask(request, len(request.body))
        if said is not None:
            self._send(*said)

    def _ask(self, request: Request, length: int) -> tuple[int, dict[str, str], bytes] | None:
        """Send the first `length` bytes of the body to the server; its answer to a whole one."""
        upstream = HTTPConnection(urlsplit(self.state.upstream).netloc, timeout=30)
        try:
            upstream.putrequest(
                request.method, request.path, skip_host=True, skip_accept_encoding=True
            )
            for name, value in request.headers.items():
                if name.lower() not in {"connection", "expect"} | self.state.without:
                    upstream.putheader(name, value)
            upstream.endheaders()
            upstream.send(request.body[:length])
            if length < len(request.body):
                return None
            answer = upstream.getresponse()
            headers = {k: v for k, v in answer.getheaders() if k.lower() not in HOP_BY_HOP}
            content = answer.read()
            if request.method == "HEAD":
                headers["Content-Length"] = answer.getheader("Content-Length", "0")
            return answer.status, headers, content
        finally:
            upstream.close()

    def _send(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in {"Date": self.date_time_string(), **headers}.items():
            if name.lower() not in self.state.without:
                self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
