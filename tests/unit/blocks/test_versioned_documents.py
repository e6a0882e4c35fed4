"""Documents saved by many threads, some of which the API refuses."""

import threading
from typing import ClassVar
from uuid import uuid4

from prefect.blocks.core import Block

from blocks.versioned_documents import Documents
from headrace.stopping import StopEvent


class Slow(Block):
    """Its registration waits between the two answers of the API."""

    registering: ClassVar = threading.Event()
    go_on: ClassVar = threading.Event()

    @classmethod
    def register_type_and_schema(cls, **_options):
        cls._block_type_id = uuid4()
        cls.registering.set()
        cls.go_on.wait(10)
        cls._block_schema_id = uuid4()


def test_a_failed_save_of_another_thread_takes_no_ids_from_one_that_registers():
    documents = Documents(Slow, patience_s=0, stop=StopEvent())
    ids = []
    registers = threading.Thread(target=lambda: ids.extend(documents._registered()))
    registers.start()
    Slow.registering.wait(10)
    forgets = threading.Thread(target=documents._forget_registration, args=(None,))
    forgets.start()
    forgets.join(0.2)
    Slow.go_on.set()
    registers.join(10)
    forgets.join(10)
    assert len(ids) == 2
    assert all(ids)
    assert Slow._block_type_id is None
