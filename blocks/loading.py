"""A saved block by its name, or an error that says what to do."""

from __future__ import annotations

from typing import TypeVar

from prefect.blocks.core import Block

from headrace.errors import ConfigurationError

Saved = TypeVar("Saved", bound=Block)


def loaded(kind: type[Saved], name: str) -> Saved:
    """The block of this kind and name.

    Raises:
        ConfigurationError: there is none, or it is no longer usable.
    """
    try:
        found = kind.load(name)
    except (ValueError, RuntimeError) as error:
        raise ConfigurationError(
            f"there is no usable {kind.get_block_type_name()} block named {name!r} "
            f"({str(error).splitlines()[0][:160]})",
            hint="Blocks are made in the Prefect UI under Blocks, or saved from Python",
        ) from error
    if not isinstance(found, kind):
        raise ConfigurationError(f"block {name!r} is no {kind.get_block_type_name()}")
    return found
