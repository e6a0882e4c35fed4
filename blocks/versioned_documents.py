"""Block documents that hold one versioned form of ours in one field: stored, patiently, and found.

Saving goes past `Block.save`, which registers the block's type each time: that fails when two
threads do it at once for the first time, and takes a third longer.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any
from uuid import UUID

from prefect.blocks.core import Block
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import BlockDocumentCreate, BlockDocumentUpdate
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    stop_after_delay,
    stop_any,
    stop_when_event_set,
    wait_random_exponential,
)

from headrace.prefect_api.reachable import API_ERRORS, require_api
from headrace.pull.exceptions import CheckpointNotSaved
from headrace.stopping import STOP, StopEvent

#: How long a save is tried again while the Prefect API does not answer.
SAVE_PATIENCE_S = 60.0

#: Documents that one request reads; the API's own limit.
_AT_ONCE = 200
#: How old a document may be that was read in advance.
_FRESH_S = 10.0

_FAILURES = (*API_ERRORS, ObjectAlreadyExists, ObjectNotFound)
_REGISTERING = threading.Lock()


class Documents:
    """The documents of one kind of block.

    Args:
        kind: the block; its data is the one field that is stored.
        patience_s: how long one save is tried again; once it was in vain, later ones get a single
            try until one succeeds, so that a run does not stand still every few seconds.
        stop: once it is set, a save gets a single try too.
    """

    def __init__(
        self, kind: type[Block], *, patience_s: float = SAVE_PATIENCE_S, stop: StopEvent = STOP
    ) -> None:
        self._kind = kind
        self._stop = stop
        self._patience_s = patience_s
        self._gave_up = False
        self._ids: dict[str, UUID] = {}
        self._together: dict[str, None] = {}
        self._read: dict[str, dict[str, Any] | None] = {}
        self._read_at = -math.inf
        self._reading = threading.Lock()

    def read_together(self, names: Iterable[str]) -> None:
        """Have the first `load` of each of these documents answered by requests for many.

        What is read in advance is at most `_FRESH_S` old when it is used; a second `load` of a
        document asks for itself.
        """
        self._together.update(dict.fromkeys(names))

    def load(self, name: str, *, failing: str) -> dict[str, Any] | None:
        """The data of a document, or None if there is none.

        Raises:
            CheckpointNotSaved: the API does not answer; `failing` says what that prevents.
        """
        with self._reading:
            if name in self._together:
                if name not in self._read or time.monotonic() - self._read_at > _FRESH_S:
                    self._read_ahead(name, failing)
                del self._together[name]
                return self._read.pop(name)
        with client_for(failing) as client:
            try:
                document = client.read_block_document_by_name(
                    name, self._kind.get_block_type_slug()
                )
            except ObjectNotFound:
                return None
        return dict(document.data)

    def _read_ahead(self, name: str, failing: str) -> None:
        """Read a document and those that are to be read after it; the lock is held."""
        names = list(islice(chain([name], (n for n in self._together if n != name)), _AT_ONCE))
        wanted = {
            "block_documents": {"name": {"any_": names}, "is_anonymous": {"eq_": False}},
            "block_types": {"slug": {"any_": [self._kind.get_block_type_slug()]}},
            "limit": len(names),
        }
        self._read = dict.fromkeys(names)
        self._read_at = time.monotonic()
        with client_for(failing) as client:
            answer = client.request("POST", "/block_documents/filter", json=wanted)
        for document in answer.json():
            self._read[document["name"]] = dict(document["data"])
            self._ids[document["name"]] = UUID(document["id"])

    def save(self, name: str, data: dict[str, Any], *, what: str, hint: str) -> None:
        """Create or update a document; an API that does not answer is asked again for a while.

        Raises:
            CheckpointNotSaved: it did not answer; `what` was to be saved, `hint` says what now.
        """
        attempts = Retrying(
            stop=stop_any(
                stop_after_delay(0.0 if self._gave_up else self._patience_s),
                stop_when_event_set(self._stop),
            ),
            sleep=sleep_using_event(self._stop),
            wait=wait_random_exponential(multiplier=0.5, max=5.0),
            retry=retry_if_exception_type(_FAILURES),
            before_sleep=self._forget_registration,
            reraise=True,
        )
        try:
            attempts(self._save, name, data)
        except _FAILURES as error:
            self._gave_up = True
            raise CheckpointNotSaved(
                f"the Prefect API did not take {what} ({short(error)})", hint=hint
            ) from error
        self._gave_up = False

    def delete(self, name: str, *, failing: str) -> bool:
        """Remove a document, whatever it holds: True if there was one.

        Raises:
            CheckpointNotSaved: the API does not answer.
        """
        with client_for(failing) as client:
            document_id = self._document_id(client, name)
            self._ids.pop(name, None)
            if document_id is None:
                return False
            try:
                client.delete_block_document(document_id)
            except ObjectNotFound:
                return False
            return True

    def _save(self, name: str, data: dict[str, Any]) -> None:
        require_api()
        type_id, schema_id = self._registered()
        with get_client(sync_client=True) as client:
            document_id = self._ids.get(name) or self._document_id(client, name)
            if document_id is None:
                created = client.create_block_document(
                    BlockDocumentCreate(
                        name=name, data=data, block_type_id=type_id, block_schema_id=schema_id
                    )
                )
                document_id = created.id
            else:
                self._ids.pop(name, None)
                client.update_block_document(
                    document_id,
                    BlockDocumentUpdate(
                        block_schema_id=schema_id, data=data, merge_existing_data=False
                    ),
                )
        self._ids[name] = document_id

    def _registered(self) -> tuple[UUID, UUID]:
        """Ids of the block's type and schema, registered by the first thread that needs them."""
        with _REGISTERING:
            kind = self._kind
            if kind._block_type_id is None or kind._block_schema_id is None:
                kind.register_type_and_schema(_sync=True)  # type: ignore[call-arg]
            if kind._block_type_id is None or kind._block_schema_id is None:
                raise RuntimeError("Prefect registered a block type without an id")
            return kind._block_type_id, kind._block_schema_id

    def _forget_registration(self, _attempt: RetryCallState) -> None:
        """Register again before the next attempt: the database may be another one by then."""
        with _REGISTERING:  # not while another thread registers, which would find no ids then
            self._kind._block_type_id = self._kind._block_schema_id = None

    def _document_id(self, client: SyncPrefectClient, name: str) -> UUID | None:
        try:
            found = client.read_block_document_by_name(name, self._kind.get_block_type_slug())
        except ObjectNotFound:
            return None
        return found.id


@contextmanager
def client_for(failing: str) -> Iterator[SyncPrefectClient]:
    """A client of the Prefect API for a `with` block.

    Args:
        failing: what cannot be done if the API does not answer, for the message.

    Raises:
        CheckpointNotSaved: it does not.
    """
    try:
        require_api()
        with get_client(sync_client=True) as client:
            yield client
    except API_ERRORS as error:
        raise CheckpointNotSaved(
            f"{failing}: the Prefect API does not answer ({short(error)})",
            hint="headrace status shows whether the server runs",
        ) from error


def short(error: BaseException) -> str:
    """The first line of what an error says."""
    text = str(error).splitlines()
    return text[0][:160] if text else type(error).__name__
