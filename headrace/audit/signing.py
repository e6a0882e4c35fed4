"""A manifest of one product: what its parts hold, read, held against the last one, and signed.

Each part's rows are read once: for the manifest after the one in which it first stands, its entry
is taken over if name, size and footer are the same. So if such a part's rows were exchanged behind
its footer, the manifest goes on to state what they were, and a check of it finds that out.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace.audit.against_manifest import LOOKS, inspect_against, sound_parts
from headrace.audit.coverage import tally
from headrace.audit.inspection import ROW_READERS, Inspection, PartsKeepChanging
from headrace.lake import Part, PartFooter, RawLake
from headrace.lake.answer_evidence import Answer
from headrace.lake.digest import rows_sha256
from headrace.lake.exceptions import ObjectMissing
from headrace.manifests.chain import Seal
from headrace.manifests.comparison import summarized
from headrace.manifests.exceptions import ManifestDamaged, ManifestMissing, NotSigned
from headrace.manifests.lakes import LakeManifests, Stated
from headrace.manifests.statement import WRONG, Change, Entry, Manifest, as_payload, from_payload
from headrace.stopping import STOP, StopEvent


class _Replaced(Exception):
    """A part is not what it was when its footer was read."""


@dataclass(frozen=True, slots=True)
class Signing:
    """How products of a lake are signed.

    Args:
        raw: the lake.
        manifests: where its manifests are.
        seal: signs one.
        accept: why rows that were lost or changed are to be stated all the same; empty: they are
            not.
        deep: read every row again, also of parts that a manifest has.
        stop: looked at before each part.
    """

    raw: RawLake
    manifests: LakeManifests
    seal: Seal
    accept: str = ""
    deep: bool = False
    stop: StopEvent = STOP

    def sign(
        self, product: str, *, newest: int, newest_answer: Answer | None, now: datetime
    ) -> Manifest:
        """Put a manifest of the product's parts as they are now at the end of its chain.

        Args:
            product: canonical id.
            newest: the newest id known.
            newest_answer: what showed it, if the exchange was asked.
            now: what the manifest says when it was made.

        Returns:
            What was signed.

        Raises:
            NotSigned: parts cannot be read or overlap, or rows were lost or changed and `accept` is
                empty, or there is nothing of it, and never was.
            ManifestTooNew: a newer version wrote the last manifest.
            ManifestDamaged, ManifestMissing: it cannot be used, and `accept` is empty.
            StoreError, Stopped: as they are.
        """

        def make(sequence: int, previous: str | None) -> dict[str, Any]:
            stated, broken = self._last(product)
            inspection, entries, changes = self._look(product, stated)
            in_spite = broken or any(each.kind in WRONG for each in changes)
            if not entries and sequence == 1:
                raise NotSigned(product, "nothing of it is stored", hint="Leave it out")
            last = max(newest, inspection.listing.coverage.last or 0)
            counted = tally(inspection, last)
            statement = Manifest(
                lake=self.manifests.lake_id(),
                exchange=self.raw.exchange,
                product=product,
                sequence=sequence,
                previous=previous,
                made_at=now.replace(microsecond=0),
                answered=counted.answered.ranges,
                missing=counted.missing.ranges,
                rows=counted.rows,
                absent_ids=counted.absent_ids,
                digest=counted.digest or "",
                newest=last,
                newest_answer=newest_answer,
                parts=len(entries),
                lists=self.manifests.keep_lists(product, entries),
                changes=summarized(changes),
                accepted=self.accept if in_spite else "",
            )
            return as_payload(statement)

        link = self.manifests.chain(product).append(make, self.seal)
        return from_payload(link.payload, Manifest)

    def _last(self, product: str) -> tuple[Stated | None, bool]:
        """The last manifest; with a reason to go on, one behind which there is a broken one."""
        try:
            return self.manifests.last(product), False
        except (ManifestDamaged, ManifestMissing):
            if not self.accept:
                raise
            return self.manifests.last_usable(product), True

    def _look(
        self, product: str, stated: Stated | None
    ) -> tuple[Inspection, tuple[Entry, ...], list[Change]]:
        """What is there, and how it differs from the last manifest; all of one moment."""
        old = stated.entries if stated else ()
        for _ in range(LOOKS):
            inspection, changes = inspect_against(
                self.raw, product, old, deep=self.deep, verify=False, stop=self.stop
            )
            self._check(product, inspection)
            self._check_changes(product, changes, stated)
            try:
                return inspection, self._entries(sound_parts(inspection), old), changes
            except _Replaced:
                continue  # merged away, or fetched again, meanwhile
        raise PartsKeepChanging(product)

    def _check(self, product: str, inspection: Inspection) -> None:
        heal = f"headrace audit {product} --heal repairs it; then sign"
        for _, unsound in inspection.unsound():
            raise NotSigned(product, unsound.reason, hint=heal)
        for overlap in inspection.listing.overlaps:
            reason = f"{overlap.left.name} and {overlap.right.name} overlap"
            raise NotSigned(product, reason, hint=heal)

    def _check_changes(
        self, product: str, changes: Sequence[Change], stated: Stated | None
    ) -> None:
        wrong = [change for change in changes if change.kind in WRONG]
        if wrong and stated and not self.accept:
            first = wrong[0]
            more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
            raise NotSigned(
                product,
                f"since manifest {stated.manifest.sequence} the ids {first.lo}-{first.hi} are "
                f"{first.kind.value}: {first.detail}{more}",
                hint="Bring them back (headrace audit --heal, or from a copy). If it is meant to "
                "be so, as after a full refresh: --accept REASON, which the manifest will state",
            )

    def _entries(
        self, parts: Sequence[tuple[Part, PartFooter]], old: Sequence[Entry]
    ) -> tuple[Entry, ...]:
        known = {(entry.lo, entry.hi): entry for entry in old}

        def entry(sound: tuple[Part, PartFooter]) -> Entry:
            part, footer = sound
            before = known.get((part.lo, part.hi))
            if before is not None and not self.deep and before.is_of(footer, part.size_bytes):
                return before
            self.stop.check()
            try:
                table, found = self.raw.verified(part)
            except ObjectMissing as error:
                raise _Replaced from error
            if found != footer:
                raise _Replaced
            return Entry.of(footer, part.size_bytes, rows_sha256(table))

        with ThreadPoolExecutor(ROW_READERS, thread_name_prefix="sign") as pool:
            return tuple(pool.map(entry, parts))
