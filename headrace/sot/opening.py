"""From a location as a person writes it to a store."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.extras import import_with
from headrace.sot.embedded.files import DEFAULT_VOLUMES
from headrace.sot.exceptions import StoreMisconfigured

if TYPE_CHECKING:
    from headrace.sot.store import SotStore

CQL_SCHEME = "cql://"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def is_embedded(location: str | Path) -> bool:
    """Whether the store is a folder here: its writers are bound by the processor, not by waiting.

    Such writers run as processes; those of a remote store as threads.
    """
    return isinstance(location, Path) or _SCHEME.match(location) is None


def open_store(
    location: str | Path, *, create: bool = True, volumes: int = DEFAULT_VOLUMES
) -> SotStore:
    """The store at `location`.

    Args:
        location: a folder, or `cql://HOST[,HOST...][:PORT]/KEYSPACE` (`headrace.sot.cql`).
        create: make it if there is none.
        volumes: of a new embedded store.

    Raises:
        StoreMisconfigured: an unknown form, or no store there.
        ExtraMissing: a CQL store without its driver.
        StoreUnavailable: it cannot be reached.
        DamagedLog, NewerLog: it is not what this version writes.
    """
    text = str(location)
    scheme = _SCHEME.match(text)
    if scheme is not None and text.startswith(CQL_SCHEME):
        # Imported only here: the driver and its event loop are of no use to the embedded store.
        return import_with("cql", "headrace.sot.cql").open_cql(text, create=create)  # type: ignore[no-any-return]
    if scheme is not None and not isinstance(location, Path):
        raise StoreMisconfigured(
            text,
            f"{scheme[1]}:// is not supported",
            hint="Name a folder, as in data/sot, or cql://HOST/KEYSPACE",
        )
    if not text.strip() or "\0" in text:
        raise StoreMisconfigured(text, "no path", hint="Name a folder, as in data/sot")
    from headrace.sot.embedded.store import EmbeddedStore  # not for help

    return EmbeddedStore(location, create=create, volumes=volumes)
