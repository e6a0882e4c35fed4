"""The manifests of a lake: where they are, and what the last ones say.

Below `_headrace/manifests/` lie `lake.json` with the lake's id, `heads/000000001.json` (a
`LakeHead` per signing) and, in a folder per product as among the parts, `000000001.json` (a
`Manifest` each) and `parts-{sha256}.json` (lists of parts).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from headrace.lake.exceptions import ObjectMissing
from headrace.lake.names import MANIFESTS_PREFIX, is_exchange, manifest_prefix, product_of_folder
from headrace.lake.store import Store
from headrace.manifests.chain import Link, Open, Seal, SignedChain
from headrace.manifests.exceptions import ManifestDamaged, ManifestMissing
from headrace.manifests.statement import (
    HEAD_TYPE,
    LIST_PARTS,
    MANIFEST_TYPE,
    Entry,
    LakeHead,
    Manifest,
    PartList,
    Position,
    as_payload,
    encode_lists,
)

HEADS = f"{MANIFESTS_PREFIX}heads/"
LAKE_KEY = f"{MANIFESTS_PREFIX}lake.json"


class _LakeFile(msgspec.Struct, frozen=True):
    lake: str


#: Made here: two threads that meet a type for the first time at once crash in msgspec.
_LAKE_FILE = msgspec.json.Decoder(_LakeFile)
_ENTRIES = msgspec.json.Decoder(tuple[Entry, ...])


@dataclass(frozen=True, slots=True)
class Stated:
    """What a manifest says of a product, with its parts by rising ids."""

    manifest: Manifest
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class LakeManifests:
    """The manifests of the products of one exchange.

    Args:
        store: the lake's.
        exchange: its name.
        open: reads a signed file; see `headrace.manifests.chain`.
        trusted: whether it checks signatures.
    """

    store: Store
    exchange: str
    open: Open
    trusted: bool = True

    def chain(self, product: str) -> SignedChain:
        """The manifests of a product."""
        prefix = manifest_prefix(self.exchange, product)
        return SignedChain(self.store, prefix, MANIFEST_TYPE, self.open)

    @property
    def heads(self) -> SignedChain:
        """The heads of the lake."""
        return SignedChain(self.store, HEADS, HEAD_TYPE, self.open)

    def last(self, product: str) -> Stated | None:
        """The last manifest of a product, held against the last head of the lake.

        Raises:
            ManifestDamaged, ManifestTooNew, ManifestMissing: it cannot be used, or is not the one
                that the head says, or one after it.
            StoreError: the store failed.
        """
        # The head first: who signs meanwhile makes the product's chain longer, never shorter.
        position = self._position(product)
        chain = self.chain(product)
        link = chain.last()
        if position is not None:
            self._check_position(chain, link, position)
        return self._stated(chain, link) if link else None

    def last_usable(self, product: str) -> Stated | None:
        """The newest manifest of a product that can be used, whatever became of later ones.

        Raises:
            ManifestTooNew: the newest is of a newer version.
            StoreError: the store failed.
        """
        chain = self.chain(product)
        for sequence in range(chain.length(), 0, -1):
            try:
                return self._stated(chain, chain.read(sequence))
            except (ManifestDamaged, ManifestMissing):
                continue
        return None

    def keep_lists(self, product: str, entries: tuple[Entry, ...]) -> tuple[PartList, ...]:
        """Store the lists of parts that a manifest is about to name, unless they are there."""
        chain, lists = self.chain(product), []
        for at, content in enumerate(encode_lists(entries)):
            sha256 = hashlib.sha256(content).hexdigest()
            self.store.put_if_absent(_list_key(chain, sha256), content)
            lists.append(PartList(min(len(entries) - at * LIST_PARTS, LIST_PARTS), sha256))
        return tuple(lists)

    def positions(self) -> tuple[Position, ...]:
        """Where the manifests of every product of the lake end, whatever its exchange."""
        found = []
        for exchange in self.store.folders(MANIFESTS_PREFIX):
            name = exchange.removeprefix("exchange=")
            if name == exchange or not is_exchange(name):
                continue
            for folder in self.store.folders(f"{MANIFESTS_PREFIX}{exchange}/"):
                if product := product_of_folder(folder):
                    chain = LakeManifests(self.store, name, self.open).chain(product)
                    if length := chain.length():
                        content = self.store.get(chain.key(length))
                        digest = hashlib.sha256(content).hexdigest()
                        found.append(Position(name, product, length, digest))
        return tuple(found)

    def lake_id(self) -> str:
        """The id by which manifests name the lake; made when it is first asked for.

        Raises:
            ManifestDamaged: the file that holds it cannot be read.
            StoreError: the store failed.
        """
        self.store.put_if_absent(
            LAKE_KEY, msgspec.json.encode(_LakeFile(secrets.token_hex(16))) + b"\n"
        )
        return self.known_id()

    def known_id(self) -> str:
        """The lake's id; empty if it has none yet.

        Raises:
            ManifestDamaged, StoreError: as `lake_id`.
        """
        try:
            return _LAKE_FILE.decode(self.store.get(LAKE_KEY)).lake
        except ObjectMissing:
            return ""
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ManifestDamaged(self.store.place(LAKE_KEY), str(error)) from error

    def sign_head(self, seal: Seal, now: datetime) -> Link:
        """Sign where the manifests of all products end now.

        Raises:
            ManifestDamaged, ManifestsContended, StoreError: as `SignedChain.append`.
        """
        lake = self.lake_id()

        def make(sequence: int, previous: str | None) -> dict[str, Any]:
            head = LakeHead(
                lake=lake,
                sequence=sequence,
                previous=previous,
                made_at=now.replace(microsecond=0),
                products=self.positions(),
            )
            return as_payload(head)

        return self.heads.append(make, seal)

    def _position(self, product: str) -> Position | None:
        link = self.heads.last()
        if link is None:
            return None
        head = self.heads.stated(link, LakeHead)
        wanted = (self.exchange, product)
        return next((e for e in head.products if (e.exchange, e.product) == wanted), None)

    def _check_position(self, chain: SignedChain, link: Link | None, position: Position) -> None:
        if link is None or link.sequence < position.sequence:
            place = self.store.place(chain.key(position.sequence))
            raise ManifestDamaged(place, "it is missing, the lake's last head says that it exists")
        there = link if link.sequence == position.sequence else chain.read(position.sequence)
        if there.sha256 != position.sha256:
            place = self.store.place(there.key)
            raise ManifestDamaged(place, "the lake's last head gives another digest of it")

    def _stated(self, chain: SignedChain, link: Link) -> Stated:
        manifest = chain.stated(link, Manifest)
        if (manifest.exchange, manifest.product) != (self.exchange, _product_of(chain)):
            place = self.store.place(link.key)
            raise ManifestDamaged(place, f"it is of {manifest.exchange} {manifest.product}")
        entries = [entry for each in manifest.lists for entry in self._listed(chain, each)]
        return Stated(manifest, tuple(entries))

    def _listed(self, chain: SignedChain, part_list: PartList) -> Iterable[Entry]:
        key = _list_key(chain, part_list.sha256)
        place = self.store.place(key)
        try:
            content = self.store.get(key)
        except ObjectMissing as error:
            raise ManifestDamaged(place, "it is missing") from error
        if hashlib.sha256(content).hexdigest() != part_list.sha256:
            raise ManifestDamaged(place, "its name is not the digest of its content")
        try:
            return _ENTRIES.decode(content)
        except msgspec.MsgspecError as error:
            raise ManifestDamaged(place, str(error)) from error


def _list_key(chain: SignedChain, sha256: str) -> str:
    return f"{chain.prefix}parts-{sha256}.json"


def _product_of(chain: SignedChain) -> str | None:
    return product_of_folder(chain.prefix.rstrip("/").rpartition("/")[2])
