"""A part as bytes: checked rows in, a complete Parquet file with its footer out, and back.

The encodings were chosen by measurement on realistic trades (see docs/lake.md): deltas for ids and
times, a dictionary for what repeats, the lowest zstd level. Sizes are plain, which is smaller than
lengths and bytes apart, and older readers know it. A file is one row group.

The footer is what a part says of itself: one JSON object under the key `headrace.part`. The lake
alone is enough to rebuild every checkpoint, so it repeats the range of the name and adds what the
name cannot hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import pairwise

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.lake.answer_evidence import Answer, answers_about
from headrace.lake.digest import ContentDigest, content_digest
from headrace.lake.exceptions import FooterTooNew, InvalidTrades, PartUnreadable
from headrace.lake.grid import PAGE_IDS
from headrace.lake.names import PartName
from headrace.trades import RAW_SCHEMA

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
        answers: those that show its holes of a page or more; none in what older versions wrote.
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
    answers: tuple[Answer, ...] = ()
    schema_version: int = FOOTER_VERSION

    @property
    def unproven_holes(self) -> tuple[tuple[int, int], ...]:
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


#: Made here: two threads that meet a type for the first time at once crash in msgspec.
_VERSION = msgspec.json.Decoder(_Version)
_FOOTER = msgspec.json.Decoder(PartFooter)


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
        version = _VERSION.decode(text).schema_version
        if version > FOOTER_VERSION:
            raise FooterTooNew(place, found=version, known=FOOTER_VERSION)
        if version < FOOTER_VERSION:
            # Its digest cannot be compared with any of ours, so its rows are as good as unchecked.
            raise PartUnreadable(place, f"its footer has the old schema version {version}")
        footer = _FOOTER.decode(text)
        ContentDigest.parse(footer.digest)
    except (msgspec.MsgspecError, ValueError) as error:
        raise PartUnreadable(place, f"its footer is garbled: {error}") from error
    if not 0 <= footer.rows <= footer.hi - footer.lo + 1:
        raise PartUnreadable(place, f"{footer.rows} rows in [{footer.lo}, {footer.hi}]")
    return footer


_MAGIC = b"PAR1"
#: Measured: of 4,000 rows threads save no time, and take a sixth more CPU.
_FEW_ROWS = 4 * PAGE_IDS
#: The fixed end of a Parquet file: length of the footer (4 bytes, little-endian) and the magic.
_END_BYTES = 8


def describe(
    name: PartName,
    table: pa.Table,
    *,
    product: str,
    sources: tuple[str, ...],
    fetched_at: datetime,
    holes_proven: bool = True,
    answers: Iterable[Answer] = (),
) -> PartFooter:
    """Check `table` and describe it as the content of the part `name`.

    Raises:
        InvalidTrades: if its schema is not `RAW_SCHEMA`, it has nulls, its ids are not strictly
            rising or not within the range, or a value has no meaning.
    """
    lo, hi = name.lo, name.hi
    try:
        holes, long_holes = _check_ids(table, lo, hi)
        digest = content_digest(table)
    except InvalidTrades as error:
        raise InvalidTrades(
            error.what, product=product, lo=lo, hi=hi, trade_id=error.trade_id
        ) from error
    return PartFooter(
        lo=lo,
        hi=hi,
        rows=table.num_rows,
        digest=str(digest),
        holes=holes,
        long_holes=long_holes,
        sources=sources,
        fetched_at=fetched_at,
        holes_proven=holes_proven,
        answers=answers_about(answers, table, lo, hi),
    )


def encode_part(table: pa.Table, footer: PartFooter) -> bytes:
    """The bytes of the part: the same for the same rows, footer and version of pyarrow."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        RAW_SCHEMA,
        compression="zstd",
        compression_level=1,
        use_dictionary=["price", "side"],
        column_encoding={
            "trade_id": "DELTA_BINARY_PACKED",
            "time": "DELTA_BINARY_PACKED",
            "size": "PLAIN",
        },
        # What planning and audits read. Of prices as text the alphabetical extremes have no use.
        write_statistics=["trade_id", "time"],
        store_schema=False,
    ) as writer:
        writer.write_table(table, row_group_size=max(1, table.num_rows))
        writer.add_key_value_metadata(footer.encode())
    content: bytes = sink.getvalue().to_pybytes()
    return content


def decode_part(content: bytes, place: str) -> tuple[pa.Table, PartFooter]:
    """The rows and the footer of a part.

    Raises:
        PartUnreadable: if it is no whole Parquet file, its columns are not the fixed schema, or
            its rows are not as many as its footer says.
        FooterTooNew: if a newer version wrote it.
    """
    try:
        with pq.ParquetFile(pa.BufferReader(content)) as file:
            footer = decode_footer(file.metadata.metadata, place)
            # To hand a few rows to threads takes longer than to read them.
            table = file.read(use_threads=footer.rows > _FEW_ROWS).replace_schema_metadata(None)
    except (pa.ArrowException, OSError) as error:
        raise PartUnreadable(place, str(error)) from error
    if table.schema != RAW_SCHEMA:
        raise PartUnreadable(place, f"its columns are {_columns(table.schema)}")
    if table.num_rows != footer.rows:
        raise PartUnreadable(place, f"{table.num_rows} rows, its footer says {footer.rows}")
    return table, footer


def footer_size(tail: bytes, place: str) -> int:
    """How many bytes at the end of the file its metadata takes, from the last 8 or more of them.

    Raises:
        PartUnreadable: if the file does not end as a Parquet file does.
    """
    if len(tail) < _END_BYTES or tail[-4:] != _MAGIC:
        raise PartUnreadable(place, "it does not end as a Parquet file (cut off, or not one)")
    return int.from_bytes(tail[-8:-4], "little") + _END_BYTES


def decode_metadata(tail: bytes, place: str) -> pq.FileMetaData:
    """The Parquet metadata in the end of a file; the tail must be `footer_size` long or longer.

    Raises:
        PartUnreadable: if it cannot be read.
    """
    try:
        return pq.read_metadata(pa.BufferReader(tail))
    except (pa.ArrowException, OSError) as error:
        raise PartUnreadable(place, str(error)) from error


def _check_ids(table: pa.Table, lo: int, hi: int) -> tuple[int, tuple[tuple[int, int], ...]]:
    """The number of holes in [lo, hi] and the long ones, from ids found to be in order."""
    if table.schema != RAW_SCHEMA:
        raise InvalidTrades(f"the columns are {_columns(table.schema)}, not the fixed schema")
    for column in table.column_names:
        if table[column].null_count:
            raise InvalidTrades(f"{table[column].null_count} nulls in {column}")
    if table.num_rows == 0:
        return 1, ((lo, hi),) if hi - lo + 1 >= PAGE_IDS else ()
    ids = table["trade_id"].combine_chunks()
    first, last = ids[0].as_py(), ids[-1].as_py()
    steps = pc.subtract(ids[1:], ids[:-1])
    if len(steps) and pc.min(steps).as_py() < 1:
        row = pc.index(pc.less(steps, 1), True).as_py() + 1
        raise InvalidTrades(
            f"trade {ids[row].as_py()} follows {ids[row - 1].as_py()}; ids must rise strictly",
            trade_id=ids[row].as_py(),
        )
    for trade_id in (first, last):
        if not lo <= trade_id <= hi:
            raise InvalidTrades(f"trade {trade_id} is outside of the range", trade_id=trade_id)
    inner = pc.sum(pc.greater(steps, 1)).as_py() or 0
    edges = (first > lo) + (last < hi)
    return inner + edges, _long_holes(ids, steps, lo, hi)


def _long_holes(
    ids: pa.Int64Array, steps: pa.Int64Array, lo: int, hi: int
) -> tuple[tuple[int, int], ...]:
    before = pc.indices_nonzero(pc.greater(steps, PAGE_IDS))
    borders = [lo - 1, ids[0].as_py()]
    for row in before.to_pylist():
        borders += [ids[row].as_py(), ids[row + 1].as_py()]
    borders += [ids[-1].as_py(), hi + 1]
    return tuple(
        (left + 1, right - 1)
        for at, (left, right) in enumerate(pairwise(borders))
        if at % 2 == 0 and right - left > PAGE_IDS
    )


def _columns(schema: pa.Schema) -> str:
    return ", ".join(
        f"{field.name} {field.type}{'' if field.nullable else ' not null'}" for field in schema
    )
