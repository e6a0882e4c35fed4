"""Every kind of block that this project has, made known to a Prefect server."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules

from prefect.blocks.core import Block
from prefect.client.orchestration import PrefectClient

import blocks


@dataclass(frozen=True, slots=True)
class RegisteredBlock:
    """A kind of block as the server has it: its name there, and what it is for."""

    slug: str
    name: str
    description: str


def block_types() -> list[type[Block]]:
    """All blocks that a module of `blocks` defines, by slug."""
    found = {
        value
        for module in iter_modules(blocks.__path__)
        for value in vars(import_module(f"{blocks.__name__}.{module.name}")).values()
        if isinstance(value, type) and issubclass(value, Block) and _is_ours(value)
    }
    return sorted(found, key=lambda kind: kind.get_block_type_slug())


async def register_blocks(client: PrefectClient) -> list[RegisteredBlock]:
    """Create or update the type and the form of every block; as often as you like."""
    kinds = block_types()
    # One after the other: writers that meet in SQLite sleep for seconds.
    for kind in kinds:
        await kind.aregister_type_and_schema(client=client)
    return [
        RegisteredBlock(
            kind.get_block_type_slug(), kind.get_block_type_name(), kind.get_description() or ""
        )
        for kind in kinds
    ]


def _is_ours(kind: type[Block]) -> bool:
    return kind.__module__.partition(".")[0] == blocks.__name__
