"""Looking at a product's parts: every footer, or every row, several at a time.

Runs may work on it meanwhile. A part that is merged away between the listing and the look is no
finding, so the listing is taken again; what was seen before is not read twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pyarrow as pa

from headrace.audit.findings import Kind
from headrace.errors import PlaceError
from headrace.lake import Part, PartFooter, PartListing, RawLake
from headrace.lake.encoding import decode_footer, decode_metadata, footer_size
from headrace.lake.exceptions import FooterTooNew, ObjectMissing, PartUnreadable
from headrace.stopping import STOP, StopEvent

#: Footers are waiting for the store, rows are work for the processor and memory.
FOOTER_READERS, ROW_READERS = 16, 4
#: How often the listing is taken again because parts went away.
_LOOKS = 10


class PartsKeepChanging(PlaceError):
    """The parts of a product went away faster than they could be listed and looked at."""

    said = "{where}: its parts change faster than they can be looked at"
    way_out = "Audit again when fewer runs work on it"


@dataclass(frozen=True, slots=True)
class Unsound:
    """Why a part is none: `kind` is UNREADABLE, MISNAMED or NEWER."""

    kind: Kind
    reason: str


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was seen of one product.

    Args:
        listing: what the names say.
        seen: of every part and hidden part, its footer, or why it has none.
    """

    listing: PartListing
    seen: dict[Part, PartFooter | Unsound]

    def footer(self, part: Part) -> PartFooter | None:
        """The footer of a sound part, else None."""
        found = self.seen[part]
        return found if isinstance(found, PartFooter) else None

    def unsound(self) -> list[tuple[Part, Unsound]]:
        """The parts that are none, by rising range."""
        return sorted(
            (part, found) for part, found in self.seen.items() if isinstance(found, Unsound)
        )


def inspect(
    raw: RawLake, product: str, *, deep: bool = False, stop: StopEvent = STOP
) -> Inspection:
    """Look at every part of `product`: at its footer, or with `deep` at its rows as well.

    In memory at once: the footers, and with `deep` one part per reader.

    Raises:
        PartsKeepChanging: parts went away faster than they could be listed.
        StoreError: the store failed.
        Stopped: the stop event was set.
    """
    look = raw.verify if deep else raw.footer
    readers = ROW_READERS if deep else FOOTER_READERS
    seen: dict[Part, PartFooter | Unsound] = {}
    for _ in range(_LOOKS):
        listing = raw.parts(product)
        every = (*listing.parts, *listing.hidden)
        new = [part for part in every if part not in seen]
        answers = _inspect_one(raw, new, look, readers, stop)
        seen.update((part, found) for part, found in answers if found is not None)
        if all(part in seen for part in every):
            kept = {part: seen[part] for part in every}
            return Inspection(_without_passing(raw, product, listing), kept)
    raise PartsKeepChanging(product)


def _without_passing(raw: RawLake, product: str, listing: PartListing) -> PartListing:
    """The listing without the pieces that a merge was about to remove when it was taken."""
    if not listing.hidden:
        return listing
    still_there = set(raw.parts(product).hidden)
    return replace(listing, hidden=tuple(part for part in listing.hidden if part in still_there))


def _inspect_one(
    raw: RawLake,
    parts: Iterable[Part],
    look: Callable[[Part], PartFooter],
    readers: int,
    stop: StopEvent,
) -> list[tuple[Part, PartFooter | Unsound | None]]:
    """Each part with what was seen; None if it is gone."""

    def one(part: Part) -> tuple[Part, PartFooter | Unsound | None]:
        stop.check()
        try:
            return part, look(part)
        except ObjectMissing:
            return part, None
        except FooterTooNew as error:
            return part, Unsound(Kind.NEWER, error.message)
        except PartUnreadable as error:
            return part, Unsound(_kind_of(raw, part), error.message)
        except pa.ArrowException as error:
            # Text that is no UTF-8 shows only when a value is looked at.
            return part, Unsound(Kind.UNREADABLE, f"{raw.store.place(part.key)}: {error}")

    with ThreadPoolExecutor(readers, thread_name_prefix="audit") as pool:
        return list(pool.map(one, parts))


def _kind_of(raw: RawLake, part: Part) -> Kind:
    """MISNAMED if the file is a part, but of another range; else UNREADABLE."""
    place = raw.store.place(part.key)
    try:
        size = footer_size(raw.store.tail(part.key, 8), place)
        metadata = decode_metadata(raw.store.tail(part.key, size), place)
        footer = decode_footer(metadata.metadata, place)
    except (PartUnreadable, FooterTooNew, ObjectMissing):
        return Kind.UNREADABLE
    return Kind.UNREADABLE if (footer.lo, footer.hi) == (part.lo, part.hi) else Kind.MISNAMED
