"""The writer: whole batches, a bounded queue, a failure that everybody hears of."""

import threading

import pytest

from headrace.errors import HeadraceError
from headrace.looker.extract.writer import Batch, Writer
from headrace.looker.vault import ITEM, Failed, Page, Vault, item_of


@pytest.fixture
def vault(tmp_path):
    with Vault.open(tmp_path / "v.sqlite", create=True) as opened:
        yield opened


def item(number, text="x"):
    return item_of("group", f'{{"id":{number},"name":"{text}"}}'.encode())


def test_what_its_ticket_says_is_in_the_vault(vault):
    session = vault.sessions.begin("extract")
    with Writer(vault, session, may_write=lambda: None) as writer:
        tickets = [
            writer.put(Batch("group", [item(n)], [Page("group", "groups", n, 2, 1)]))
            for n in range(50)
        ]
        for ticket in tickets:
            ticket.result()
        assert vault.contents.counts()["group"] == (50, 0)
        assert len(vault.progress.pages(session, "group", "groups")) == 50
        assert writer.tally("group").new == 50


def test_everything_is_stored_when_the_block_ends(vault):
    session = vault.sessions.begin("extract")
    with Writer(vault, session, may_write=lambda: None) as writer:
        for number in range(200):
            writer.put(Batch("group", [item(number)]))
        writer.put(Batch("look", failures=[Failed("look", ITEM, "7", 404, "gone")]))
    assert vault.contents.counts()["group"] == (200, 0)
    assert [failure.key for failure in vault.failures.open()] == ["7"]


def test_who_brings_too_much_waits_until_there_is_room(vault):
    session, go = vault.sessions.begin("extract"), threading.Event()
    body = "x" * 1000
    with Writer(vault, session, may_write=go.wait, most_bytes=1500) as writer:
        writer.put(Batch("group", [item(1, body)]))
        while writer._waiting:  # taken by the thread, which waits for leave to write
            threading.Event().wait(0.01)
        writer.put(Batch("group", [item(2, body)]))
        third = threading.Thread(target=writer.put, args=(Batch("group", [item(3, body)]),))
        third.start()
        third.join(0.3)
        assert third.is_alive()
        go.set()
        third.join()
    assert vault.contents.counts()["group"] == (3, 0)


def test_when_writing_is_not_ours_any_more_everybody_hears_of_it(vault):
    session = vault.sessions.begin("extract")

    def lost():
        raise HeadraceError("the lease is lost")

    def extraction():
        with Writer(vault, session, may_write=lost) as writer:
            ticket = writer.put(Batch("group", [item(1)]))
            with pytest.raises(HeadraceError, match="the lease is lost"):
                ticket.result()
            with pytest.raises(HeadraceError, match="the lease is lost"):
                writer.put(Batch("group", [item(2)]))

    with pytest.raises(HeadraceError, match="the lease is lost"):
        extraction()
    assert vault.contents.counts() == {}
