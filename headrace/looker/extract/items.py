"""Items whose body costs a request each, fetched one by one: one that fails costs only itself."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import HeadraceError
from headrace.looker.client import Call, NotFound
from headrace.looker.content_types import Content
from headrace.looker.extract.context import Context
from headrace.looker.extract.report import RangeReceipt
from headrace.looker.extract.writer import Batch, Ticket
from headrace.looker.vault import ITEM, Failed, item_of
from headrace.stopping import Stopped
from headrace.wire.exceptions import RequestError


@dataclass
class ItemFetcher:
    """Fetches single items of one type. For many threads."""

    context: Context
    content: Content

    def fetch_many(self, ids: tuple[str, ...]) -> RangeReceipt:
        """Fetch some items, and wait until they, or their failures, are in the vault."""
        tickets: list[Ticket] = []
        failed, error = 0, ""
        for item_id in ids:
            if self.context.stop.is_set():
                break
            try:
                ticket, problem = self.fetch(item_id)
            except Stopped:
                break
            tickets.append(ticket)
            failed += bool(problem)
            error = error or problem
        for ticket in tickets:
            ticket.result()
        return RangeReceipt(len(tickets) - failed, failed, error)

    def fetch(self, item_id: str) -> tuple[Ticket, str]:
        """Fetch one item and hand it to the writer; the text says what failed, if anything did.

        Raises:
            Stopped: the run was asked to stop.
        """
        try:
            return self._kept(item_id, self._asked(item_id))
        except Stopped:
            raise
        except HeadraceError as error:
            return self._failed(item_id, error)

    def look_up_many(self, ids: tuple[str, ...]) -> RangeReceipt:
        """Look up items that a complete listing did not show: only a 404 deletes.

        What is there after all is stored as it is now (in the trash, in another folder).
        """
        deleted, failed, error = 0, 0, ""
        for item_id in ids:
            if self.context.stop.is_set():
                break
            try:
                ticket, problem = self._kept(item_id, self._asked(item_id))
            except Stopped:
                break
            except NotFound as gone:
                deleted += self._delete(item_id, gone)
                continue
            except HeadraceError as unproven:
                ticket, problem = self._failed(item_id, unproven)
            ticket.result()
            failed += bool(problem)
            error = error or problem
        return RangeReceipt(deleted, failed, error)

    def _kept(self, item_id: str, body: bytes) -> tuple[Ticket, str]:
        item = item_of(self.content.type, body, item_id=item_id)
        ticket = self.context.writer.put(Batch(item.type, [item]))
        self.context.progress.add(item.type, done=1)
        return ticket, ""

    def _failed(self, item_id: str, error: HeadraceError) -> tuple[Ticket, str]:
        type_ = self.content.type
        self.context.progress.add(type_, failed=1)
        status = error.status if isinstance(error, RequestError) else None
        failed = Failed(type_, ITEM, item_id, status, str(error))
        return self.context.writer.put(Batch(type_, failures=[failed])), str(error)

    def _delete(self, item_id: str, gone: NotFound) -> bool:
        path = self.content.item_path(item_id)
        evidence = f"{gone.status} for GET {path}"
        done = self.context.vault.listings.delete(
            self.context.session, self.content.type, item_id, evidence=evidence
        )
        if done:
            self.context.listener("item-deleted", {"type": self.content.type, "id": item_id})
        return done

    def _asked(self, item_id: str) -> bytes:
        call = Call(about=f"{self.content.type} {item_id}", type=self.content.type)
        with self.context.ends_by_outage():
            return self.context.client.item(self.content.type, item_id, call=call)
