"""What a part says of itself: typed metadata in the footer of its Parquet file.

One JSON object under the key `headrace.part`. The lake alone is enough to rebuild every
checkpoint, so the footer repeats the range of the name and adds what the name cannot hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from headrace.lake.digest import ContentDigest
from headrace.lake.exceptions import FooterTooNew, PartUnreadable

FOOTER_KEY = b"headrace.part"
#: 2: another content digest. Footers of version 1 come from before the first release.
FOOTER_VERSION = 2


class PartFooter(msgspec.Struct, frozen=True, kw_only=True):
    """The footer of one part.

    Args:
        lo: first id of the answered range, inclusive.
        hi: last id of it, inclusive.
        rows: how many trades it holds; every other id of the range is a hole of the exchange.
        digest: content digest of the rows, 32 hexadecimal digits.
        holes: how many runs of absent ids there are.
        long_holes: those of a page (1,000 ids) or more, as inclusive ranges.
        sources: hosts that answered for the range, sorted; several after a merge.
        fetched_at: when the youngest of the rows was fetched, UTC.
        holes_proven: whether every hole was shown by an answer with a row on either side of it
            (docs/adr/0012). False in what older versions wrote, which know no such field: they
            took an empty page for a hole.
        schema_version: version of this footer and of the file's columns.
    """

    lo: int
    hi: int
    rows: int
    digest: str
    holes: int
    long_holes: tuple[tuple[int, int], ...]
    sources: tuple[str, ...]
    fetched_at: datetime
    holes_proven: bool = False
    schema_version: int = FOOTER_VERSION

    @property
    def doubtful_holes(self) -> tuple[tuple[int, int], ...]:
        """The holes of a page or more that nothing proves."""
        return () if self.holes_proven else self.long_holes

    @property
    def content(self) -> ContentDigest:
        """The content digest as a value that can be added and compared."""
        return ContentDigest.parse(self.digest)

    def encode(self) -> dict[bytes, bytes]:
        """The footer as key-value metadata of a Parquet file."""
        return {FOOTER_KEY: msgspec.json.encode(self)}


class _Version(msgspec.Struct, frozen=True):
    schema_version: int


def decode_footer(metadata: Mapping[bytes, bytes] | None, place: str) -> PartFooter:
    """The footer in the key-value metadata of the Parquet file at `place`.

    Raises:
        PartUnreadable: if there is none, it is garbled, too old, or contradicts itself.
        FooterTooNew: if a newer version wrote it.
    """
    text = (metadata or {}).get(FOOTER_KEY)
    if text is None:
        raise PartUnreadable(place, f"no {FOOTER_KEY.decode()!r} in its Parquet footer")
    try:
        version = msgspec.json.decode(text, type=_Version).schema_version
        if version > FOOTER_VERSION:
            raise FooterTooNew(place, found=version, known=FOOTER_VERSION)
        if version < FOOTER_VERSION:
            # Its digest cannot be compared with any of ours, so its rows are as good as unchecked.
            raise PartUnreadable(place, f"its footer has the old schema version {version}")
        footer = msgspec.json.decode(text, type=PartFooter)
        ContentDigest.parse(footer.digest)
    except (msgspec.MsgspecError, ValueError) as error:
        raise PartUnreadable(place, f"its footer is garbled: {error}") from error
    if not 0 <= footer.rows <= footer.hi - footer.lo + 1:
        raise PartUnreadable(place, f"{footer.rows} rows in [{footer.lo}, {footer.hi}]")
    return footer
