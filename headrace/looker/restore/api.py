"""JSON in and out of a Looker that is restored into."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.looker.client import NotFound
from headrace.looker.restore.fields import Fields, known_only
from headrace.looker.vault import id_text
from headrace.wire.exceptions import BadAnswer, RequestRefused

if TYPE_CHECKING:
    from headrace.looker.client import LookerClient


class Api:
    """JSON in and out of a client. Every request takes a permit of the Looker's own quota."""

    def __init__(self, client: LookerClient) -> None:
        self.client = client

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """What is there.

        Raises:
            NotFound: nothing is.
            BadAnswer: no JSON.
        """
        return _parsed(self.client.ask(path, query), path)

    def item(self, type_: str, item_id: str) -> bytes | None:
        """The body of an item; None if there is none."""
        try:
            return self.client.item(type_, item_id)
        except NotFound:
            return None

    def write(self, method: str, path: str, kind: str, fields: Fields) -> Fields:
        """POST or PATCH `fields`; the answer.

        If the server refuses fields that this version does not know, the known ones go alone.

        Raises:
            RequestRefused: the server refuses it.
        """
        try:
            return self._object(method, path, fields)
        except RequestRefused as error:
            known = known_only(kind, fields)
            if known == fields or error.status not in (400, 422):
                raise
        return self._object(method, path, known)

    def put(self, method: str, path: str, value: Any) -> None:
        """Send a value whose answer does not matter."""
        self.client.send(method, path, _encoded(value))

    def delete(self, path: str) -> None:
        """Remove; what is not there is no error."""
        try:
            self.client.send("DELETE", path)
        except NotFound:
            return

    def _object(self, method: str, path: str, fields: Fields) -> Fields:
        answer = _parsed(self.client.send(method, path, _encoded(fields)), path)
        if not isinstance(answer, dict):
            raise BadAnswer("the answer is no object", product=f"{method} {path}", status=200)
        return answer


def id_from_answer(answer: Fields, about: str, *, name: str = "id") -> str:
    """The id in an answer.

    Raises:
        BadAnswer: there is none.
    """
    found = id_text(answer.get(name))
    if found is None:
        raise BadAnswer(f"the answer names no {name}", product=about, status=200)
    return found


def _encoded(value: Any) -> bytes:
    # ASCII, so that a lone surrogate goes back as the escape that it came as.
    return json.dumps(value, separators=(",", ":")).encode()


def _parsed(body: bytes, path: str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadAnswer("the answer is no JSON", product=path, status=200) from error
