"""Logins of a simulated Looker: short-lived tokens, and who may do what with them."""

from __future__ import annotations

import hmac
import json
import threading
from collections.abc import Callable
from urllib.parse import parse_qs

from headrace.sim.http import Reply, Request
from headrace.sim.looker.settings import LookerSettings

_FORM = "application/x-www-form-urlencoded"


class TokenStore:
    """Issues tokens for the right credentials, and revokes them.

    Attributes:
        logins: how many tokens were issued.
        refused: how many logins were refused.
        most_at_once: the most tokens that were valid at one moment.
    """

    def __init__(self, settings: LookerSettings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._ends: dict[str, float] = {}
        self.logins = self.refused = self.most_at_once = 0

    def login(self, request: Request) -> Reply:
        """Answer `POST /login`, which takes a form."""
        sent = request.headers.get("content-type", "")
        form = parse_qs(request.body.decode("utf-8", "replace")) if sent.startswith(_FORM) else {}
        given = [form.get(name, [""])[0] for name in ("client_id", "client_secret")]
        wanted = [self._settings.client_id, self._settings.client_secret.get_secret_value()]
        if not all(hmac.compare_digest(a.encode(), b.encode()) for a, b in zip(given, wanted)):  # noqa: B905
            with self._lock:
                self.refused += 1
            # Looker hides behind a 404 who may log in.
            return error_reply(404, "Not found", "post", "login")
        now = self._clock()
        with self._lock:
            self.logins += 1
            token = f"token{self.logins:06}"
            self._ends = {known: end for known, end in self._ends.items() if end > now}
            self._ends[token] = now + self._settings.token_s
            self.most_at_once = max(self.most_at_once, len(self._ends))
        body = {
            "access_token": token,
            "token_type": "Bearer",
            "expires_in": max(1, int(self._settings.token_s)),
            "refresh_token": None,
        }
        return Reply(200, json.dumps(body).encode())

    def logout(self, request: Request) -> Reply:
        """Answer `DELETE /logout`."""
        with self._lock:
            self._ends.pop(_token(request), None)
        return Reply(204)

    def refuse(self, request: Request) -> Reply | None:
        """A 401, or None for a valid token."""
        with self._lock:
            if self._ends.get(_token(request), 0.0) > self._clock():
                return None
        url = "https://cloud.google.com/looker/docs/"
        said = {"message": "Requires authentication.", "documentation_url": url}
        return Reply(401, json.dumps(said).encode())

    def revoke(self) -> None:
        """Revoke every token."""
        with self._lock:
            self._ends.clear()


def error_reply(status: int, message: str, verb: str, path: str, **more: object) -> Reply:
    """An error in Looker's form, with the documentation URL that its SDK would fetch."""
    url = f"https://cloud.google.com/looker/docs/r/err/4.0/{status}/{verb}/{path}"
    said = {"message": message, "documentation_url": url, **more}
    return Reply(status, json.dumps(said).encode())


def _token(request: Request) -> str:
    return request.headers.get("authorization", "").removeprefix("Bearer ").removeprefix("token ")
