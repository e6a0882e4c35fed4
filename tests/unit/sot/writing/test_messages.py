"""Messages over a pipe: of any size and in any number of pieces, and the end of it."""

from __future__ import annotations

import os
import random
import threading

import pytest

from headrace.sot.writing.messages import make_pipe, receive, send


@pytest.mark.parametrize("pieces", [0, 1, 2, 3000])
@pytest.mark.parametrize("largest", [0, 10, 5000])
def test_what_is_sent_arrives(pieces: int, largest: int) -> None:
    rng = random.Random(pieces + largest)
    sent = [[rng.randbytes(rng.randint(0, largest)) for _ in range(pieces)] for _ in range(3)]
    reader, writer = make_pipe()
    thread = threading.Thread(target=lambda: [send(writer, message) for message in sent])
    thread.start()
    for message in sent:
        assert receive(reader) == b"".join(message)
    thread.join()
    os.close(writer)
    with pytest.raises(EOFError):
        receive(reader)
    os.close(reader)


def test_a_message_that_is_cut_off_is_no_message() -> None:
    reader, writer = make_pipe()
    os.write(writer, (100).to_bytes(8, "little") + b"half")
    os.close(writer)
    with pytest.raises(EOFError):
        receive(reader)
    os.close(reader)


def test_no_reader() -> None:
    reader, writer = make_pipe()
    os.close(reader)
    with pytest.raises(OSError, match="Broken pipe"):
        send(writer, [b"x"])
    os.close(writer)
