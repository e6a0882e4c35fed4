"""The lake in a local folder: temporary file, fsync, rename, fsync of the folder.

The temporary file of a part stands in a folder of the lake's own: some readers take every file
below the folder of the parts for Parquet. Any other stands beside its target, and so does a part's
if its folder is on another file system, since a rename cannot cross them. The writer holds a lock
on the temporary file, which ends with the process: a temporary file that can be locked was left by
a killed writer and is removed by the next sweep. Its name starts with a dot, which readers of
folders (Arrow, Spark, DuckDB's globs) skip.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headrace.atomic_files import sync_folder
from headrace.kill_points import kill_point
from headrace.lake.exceptions import (
    ObjectMissing,
    StoreDenied,
    StoreError,
    StoreFull,
    StoreUnusable,
)
from headrace.lake.names import RAW_ROOT, TEMPORARY_PREFIX
from headrace.lake.store import PROBE_KEY, Guard, StoredObject, unguarded
from headrace.locks import try_lock
from headrace.paths import publish_new, real_path

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}\.tmp")
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_UNUSABLE = {errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP}


class LocalStore:
    """Objects as files under `root`, which is made on the first write.

    Args:
        root: the folder; a relative one is taken from the working directory at construction. One
            folder has one location however it is spelled, since leases and checkpoints hang on it.
    """

    def __init__(self, root: str | Path) -> None:
        self._root = real_path(root)

    @property
    def location(self) -> str:
        """The absolute path of the root, without symbolic links."""
        return str(self._root)

    @property
    def lists_together(self) -> bool:
        """See `Store.lists_together`."""
        return False

    def place(self, key: str) -> str:
        """The absolute path of `key`."""
        return str(self._root / key)

    def put(self, key: str, content: bytes, *, guard: Guard = unguarded) -> None:
        """See `Store.put`."""
        self._write(key, content, _replace, guard)

    def put_if_absent(self, key: str, content: bytes, *, guard: Guard = unguarded) -> bool:
        """See `Store.put_if_absent`. A hard link fails if the name is taken, a rename would not."""
        return self._write(key, content, publish_new, guard)

    def get(self, key: str) -> bytes:
        """See `Store.get`."""
        path = self._root / key
        with explained("reading", path):
            return path.read_bytes()

    def tail(self, key: str, size_bytes: int) -> bytes:
        """See `Store.tail`."""
        path = self._root / key
        with explained("reading", path), path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - size_bytes))
            return file.read()

    def span(self, key: str, start: int, size_bytes: int) -> bytes:
        """See `Store.span`."""
        path = self._root / key
        with explained("reading", path), path.open("rb", buffering=0) as file:
            return os.pread(file.fileno(), size_bytes, start)

    def exists(self, key: str) -> bool:
        """See `Store.exists`."""
        path = self._root / key
        with explained("looking at", path):
            try:
                path.stat()
            except FileNotFoundError:
                return False
            return True

    def entries(self, prefix: str) -> Iterator[StoredObject]:
        """See `Store.entries`; temporary files of writers are not listed."""
        for entry in self._scan(prefix):
            if _TEMPORARY.fullmatch(entry.name):
                continue
            with suppress(FileNotFoundError):  # removed since the folder was read
                if entry.is_file():
                    found = entry.stat()
                    # The time of the rename, which cannot be set, not that of the writing.
                    changed_us = found.st_ctime_ns // 1_000
                    yield StoredObject(prefix + entry.name, found.st_size, changed_us)

    def listings(self, prefixes: Iterable[str]) -> Iterator[dict[str, list[StoredObject]]]:
        """See `Store.listings`: a folder each."""
        for prefix in sorted(prefixes):
            yield {prefix: list(self.entries(prefix))}

    def folders(self, prefix: str) -> list[str]:
        """See `Store.folders`."""
        return sorted(entry.name for entry in self._scan(prefix) if entry.is_dir())

    def delete(self, key: str, *, guard: Guard = unguarded) -> None:
        """See `Store.delete`; durable when it returns."""
        path = self._root / key
        with explained("removal", path):
            guard()
            try:
                path.unlink()
            except FileNotFoundError:
                return
            sync_folder(path.parent)

    def sweep(self, prefix: str) -> list[str]:
        """See `Store.sweep`: temporary files whose writer is gone."""
        removed = []
        for entry in self._scan(prefix):
            if _TEMPORARY.fullmatch(entry.name):
                path = Path(entry.path)
                with explained("removal", path):
                    if _remove_abandoned(path):
                        removed.append(prefix + entry.name)
        return sorted(removed)

    def check(self) -> None:
        """See `Store.check`."""
        with explained("use", self._root):
            if self._root.exists() and not self._root.is_dir():
                raise StoreUnusable("use", self.location, "it is a file, not a folder")
        for prefix in ("", TEMPORARY_PREFIX):
            self.sweep(prefix)
        self.put(PROBE_KEY, b"may be removed\n")
        self.delete(PROBE_KEY)

    def _scan(self, prefix: str) -> list[os.DirEntry[str]]:
        folder = self._root / prefix
        with explained("listing", folder):
            try:
                with os.scandir(folder) as entries:
                    return list(entries)
            except FileNotFoundError:
                return []

    def _write(
        self, key: str, content: bytes, publish: Callable[[Path, Path], bool], guard: Guard
    ) -> bool:
        path = self._root / key
        with explained("writing", path):
            among_parts = key.startswith(f"{RAW_ROOT}/")
            drafts = self._root / TEMPORARY_PREFIX if among_parts else path.parent
            for folder in (path.parent, drafts):
                make_folder(folder)
            while True:
                temporary = drafts / f".{path.name}.{secrets.token_hex(8)}.tmp"
                try:
                    return _write_and_publish(temporary, path, content, publish, guard)
                except FileNotFoundError:
                    # Swept between its creation and its rename, if the folders are still there.
                    if not (path.parent.is_dir() and drafts.is_dir()):
                        raise
                except OSError as error:
                    if error.errno != errno.EXDEV or drafts == path.parent:
                        raise
                    drafts = path.parent


def _write_and_publish(
    temporary: Path, path: Path, content: bytes, publish: Callable[[Path, Path], bool], guard: Guard
) -> bool:
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        if not try_lock(descriptor):
            # A sweep took it between its creation and here, and is about to remove it.
            raise FileNotFoundError(temporary)
        half = len(content) // 2
        _write_all(descriptor, content[:half])
        kill_point("during-part")
        _write_all(descriptor, content[half:])
        os.fsync(descriptor)
        kill_point("before-rename")
        guard()
        published = publish(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
        os.close(descriptor)
    sync_folder(path.parent)
    return published


def _write_all(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def _replace(temporary: Path, path: Path) -> bool:
    temporary.replace(path)
    return True


def _remove_abandoned(temporary: Path) -> bool:
    """Remove a temporary file unless a running writer holds its lock."""
    try:
        descriptor = os.open(temporary, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        if not try_lock(descriptor):
            return False
        temporary.unlink(missing_ok=True)
        return True
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make `folder` and what is missing above it, each entry durable."""
    if folder.is_dir():
        return
    if folder.parent != folder:
        make_folder(folder.parent)
    try:
        folder.mkdir()
    except FileExistsError:
        if not folder.is_dir():
            raise
    sync_folder(folder.parent)


@contextmanager
def explained(action: str, path: Path) -> Iterator[None]:
    """Turn an OSError into the error that says what happened to which path."""
    try:
        yield
    except OSError as error:
        raise _translated(action, path, error) from error


def _translated(action: str, path: Path, error: OSError) -> StoreError:
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return StoreFull(action, str(path), reason, hint="Free some space and run again")
    if error.errno in _DENIED:
        return StoreDenied(action, str(path), reason, hint="Give this user the right to write here")
    if isinstance(error, FileNotFoundError):
        return ObjectMissing(action, str(path), reason)
    if error.errno in _UNUSABLE:
        blocking = next((p for p in (path, *path.parents) if _is_no_folder(p)), path)
        return StoreUnusable(action, str(path), f"{reason} ({blocking})")
    return StoreError(action, str(path), reason)


def _is_no_folder(path: Path) -> bool:
    try:
        return path.exists() and not path.is_dir()
    except OSError:
        return False  # its name alone is too long, or a loop of links
