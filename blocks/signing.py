"""A signing key in a Prefect block, with the list of its public keys."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from prefect.blocks.core import Block
from pydantic import Field, SecretStr

from blocks.versioned_documents import Documents
from headrace.evidence.exceptions import KeyUnusable
from headrace.evidence.keys import KeyList, SigningKey, read_key_list


class SigningKeyBlock(Block):
    """An Ed25519 key that signs heads of logs and manifests of lakes."""

    _block_type_name = "Headrace Signing Key"
    _block_type_slug = "headrace-signing-key"
    _description = "A signing key for evidence, and the public keys that came before it."
    _code_example = (
        "`headrace evidence key make --key block:ours` makes one.\n"
        "```python\nfrom blocks import SigningKeyBlock\n\n"
        'SigningKeyBlock.load("ours").public_keys\n```'
    )

    private_key: SecretStr = Field(description="PKCS #8 PEM, made by `headrace evidence key make`.")
    public_keys: dict[str, Any] = Field(description="All public keys; see docs/evidence.md.")


class BlockKey:
    """The signing key of one block document of the configured Prefect API.

    Two processes that rotate one key at the same moment are not kept apart: the API has no
    conditional write. The key that comes last signs; the other's successor is in no list.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._documents = Documents(SigningKeyBlock)

    @property
    def where(self) -> str:
        """The block as an option names it."""
        return f"block:{self.name}"

    def private(self) -> SigningKey | None:
        """The key, as the API hands it out."""
        stored = self._load()
        if stored is None:
            return None
        pem = stored.get("private_key")
        if not isinstance(pem, str):
            raise KeyUnusable(self.where, "the block holds no key")
        return SigningKey.from_pem(pem.encode(), where=self.where)

    def public(self) -> KeyList:
        """All public keys."""
        stored = self._load()
        if stored is None:
            return KeyList()
        return read_key_list(json.dumps(stored.get("public_keys")), where=self.where)

    def keep(self, private: SigningKey, public: KeyList) -> None:
        """Replace both in one write."""
        self._documents.save(
            self.name,
            {"private_key": private.to_pem().decode(), "public_keys": public.as_dict()},
            what=f"the signing key {private.key_id}",
            hint="Nothing was changed; repeat it when the API answers",
        )

    def changing(self) -> AbstractContextManager[None]:
        """Nothing: see the class."""
        return nullcontext()

    def _load(self) -> dict[str, Any] | None:
        return self._documents.load(
            self.name, failing=f"the signing key in {self.where} cannot be read"
        )
