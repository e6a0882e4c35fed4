"""A signing key in a file, for its owner alone, and the list of public keys beside it."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from headrace.atomic_files import put_whole
from headrace.evidence.exceptions import KeyUnusable
from headrace.evidence.keys import KeyList, SigningKey, read_key_list
from headrace.locks import locked
from headrace.paths import user_path

#: A PEM of an Ed25519 key has 119 bytes: what is much larger is another file.
_LARGEST_BYTES = 64 * 1024


class KeyFile:
    """`KEY.pem` with the private half, mode 0600, and `KEY.public.json` with all public ones.

    Args:
        path: of the private half.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = user_path(path)
        self.public_path = self.path.with_suffix(".public.json")

    @property
    def where(self) -> str:
        """The file of the private half."""
        return str(self.path)

    def private(self) -> SigningKey | None:
        """The key, if this user alone may read it."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(error) from error
        try:
            self._check_access(os.fstat(descriptor))
            pem = os.read(descriptor, _LARGEST_BYTES)
        except OSError as error:
            raise self._unusable(error) from error
        finally:
            os.close(descriptor)
        return SigningKey.from_pem(pem, where=self.where)

    def _check_access(self, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise KeyUnusable(self.where, "it is no file")
        mode = stat.S_IMODE(found.st_mode)
        if mode & 0o177:
            raise KeyUnusable(
                self.where,
                f"its mode is {mode:04o}, so others than its owner may use it",
                hint=f"chmod 600 {self.path}; if others may have read it, rotate it afterwards",
            )
        if found.st_uid not in (os.geteuid(), 0):
            raise KeyUnusable(self.where, f"it belongs to user {found.st_uid}")

    def public(self) -> KeyList:
        """All public keys."""
        try:
            stored = self.public_path.read_bytes()
        except FileNotFoundError:
            return KeyList()
        except OSError as error:
            raise self._unusable(error) from error
        return read_key_list(stored, where=str(self.public_path))

    def keep(self, private: SigningKey, public: KeyList) -> None:
        """Replace both, each as a whole."""
        listed = json.dumps(public.as_dict(), indent=1).encode() + b"\n"
        try:
            put_whole(self.public_path, listed, replace=True, mode=0o644)
            put_whole(self.path, private.to_pem(), replace=True, mode=0o600)
        except OSError as error:
            raise self._unusable(error) from error

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold a lock beside the key; its folder is made if it is missing."""
        with ExitStack() as held:
            try:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                held.enter_context(locked(self.path.with_name(f".{self.path.name}.lock")))
            except OSError as error:
                raise self._unusable(error) from error
            yield

    def _unusable(self, error: OSError) -> KeyUnusable:
        named = error.filename if isinstance(error.filename, str) else self.where
        return KeyUnusable(self.where, f"{named}: {error.strerror or error}")
