"""Where anchors are kept: an append-only file, a Git repository, a bucket (with object lock).

A place is of one log, or of one lake: a head of another one in it does not fit.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from headrace.atomic_files import sync_folder, write_all
from headrace.errors import HeadraceError
from headrace.lake.exceptions import LakeUnusable, StoreDenied
from headrace.locks import locked
from headrace.paths import real_path
from headrace.sot.anchors.exceptions import (
    AnchorsMisconfigured,
    AnchorsMissing,
    AnchorsUnavailable,
)

if TYPE_CHECKING:
    from headrace.lake.s3_locked import LockedStore

GIT_SCHEME: Final = "git:"
S3_SCHEME: Final = "s3://"
#: Whose heads a place keeps: what their file in a repository, or their folder in a bucket, is
#: called, so that a log and a lake can share both.
LOG: Final = "sot-heads"
LAKE: Final = "lake-heads"
#: A remote that does not answer.
_GIT_TIMEOUT_S: Final = 120.0


class AnchorPlace(Protocol):
    """A place that keeps lines, each a signed head, in the order in which they were put there."""

    @property
    def where(self) -> str:
        """As a person would write it."""

    def append(self, line: bytes, name: str) -> str:
        """Keep one more; durable when it returns. A few words on how it is protected, or "".

        Args:
            line: ends with a line feed.
            name: rises from head to head, for places that keep each by itself.

        Raises:
            AnchorsUnavailable: it does not take it, or its last head is of another log or lake.
        """

    def lines(self) -> Iterator[tuple[str, bytes]]:
        """All of them, each with its place.

        Raises:
            AnchorsUnavailable: it does not answer.
        """


class FileAnchors:
    """A file to which lines are appended; `chattr +a`, or another machine, protects it.

    Args:
        path: in a folder that exists.
    """

    def __init__(self, path: str) -> None:
        self._path = real_path(path)
        if self._path.is_dir() or not self._path.parent.is_dir():
            raise AnchorsMisconfigured(path, "it is a folder, or lies in one that does not exist")

    @property
    def where(self) -> str:
        """The file."""
        return str(self._path)

    def append(self, line: bytes, name: str) -> str:  # noqa: ARG002 - the protocol's
        """See `AnchorPlace.append`."""
        _append_head(self.where, self._path, line)
        return ""

    def lines(self) -> Iterator[tuple[str, bytes]]:
        """See `AnchorPlace.lines`."""
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise _unavailable(self.where, "reading", error) from error
        yield from _numbered(self.where, content)


class GitAnchors:
    """A file in a Git repository: a commit per head, pushed to `origin` if there is one.

    With an `origin`, what is read is what that has: the folder is in the writer's hands.

    Args:
        folder: the repository's working tree.
        heads: `LOG` or `LAKE`.
    """

    def __init__(self, folder: str, heads: str = LOG) -> None:
        self._file = f"{heads}.jsonl"
        self._folder = real_path(folder)
        if not (self._folder / ".git").exists():
            raise AnchorsMisconfigured(
                f"{GIT_SCHEME}{folder}",
                "it is no Git repository",
                hint="`git init` or `git clone` makes one",
            )

    @property
    def where(self) -> str:
        """The folder, as an option names it."""
        return f"{GIT_SCHEME}{self._folder}"

    def append(self, line: bytes, name: str) -> str:
        """See `AnchorPlace.append`."""
        remote = self._remote()
        with locked(self._folder / ".git" / "headrace.lock"):
            _append_head(self.where, self._folder / self._file, line)
            self._git("add", "--", self._file)
            self._git("commit", "-q", "-m", f"{self._file}: {name}", "--", self._file)
            if remote:
                self._git("push", "-q", "origin", "HEAD")
        return "pushed to origin" if remote else "in this repository alone: it has no origin"

    def lines(self) -> Iterator[tuple[str, bytes]]:
        """See `AnchorPlace.lines`."""
        commit = "HEAD"
        if self._remote():
            branch = self._git("rev-parse", "--abbrev-ref", "HEAD").decode().strip()
            if not self._git("ls-remote", "origin", f"refs/heads/{branch}"):
                return
            self._git("fetch", "-q", "origin", branch)
            commit = "FETCH_HEAD"
        elif not self._git("for-each-ref"):
            return
        if self._git("ls-tree", commit, "--", self._file):
            kept = f"{commit}:{self._file}"
            yield from _numbered(f"{self.where}, {kept}", self._git("show", kept))

    def _remote(self) -> bool:
        return b"origin" in self._git("remote").split()

    def _git(self, *words: str) -> bytes:
        # A prompt for a password would wait for ever in a deployment.
        environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
        try:
            done = subprocess.run(
                ["git", "-C", str(self._folder), *words],
                capture_output=True,
                timeout=_GIT_TIMEOUT_S,
                env=environment,
                check=False,
            )
        except FileNotFoundError:
            raise AnchorsUnavailable(
                self.where, f"git {words[0]} of", "git is not installed"
            ) from None
        except subprocess.TimeoutExpired:
            reason = f"no end within {_GIT_TIMEOUT_S:.0f} s"
            raise AnchorsUnavailable(self.where, f"git {words[0]} of", reason) from None
        if done.returncode:
            said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
            reason = said[-1][:300] if said else f"exit code {done.returncode}"
            raise AnchorsUnavailable(self.where, f"git {words[0]} of", reason)
        return done.stdout


class S3Anchors:
    """An object per head. With object lock in the bucket, every version counts that ever was.

    Args:
        store: the bucket and prefix.
        heads: `LOG` or `LAKE`.
    """

    def __init__(self, store: LockedStore, heads: str = LOG) -> None:
        self._store = store
        self._folder = f"{heads}/"

    @property
    def where(self) -> str:
        """The bucket and prefix."""
        return self._store.location

    def append(self, line: bytes, name: str) -> str:
        """See `AnchorPlace.append`."""
        key = f"{self._folder}{name}.json"
        try:
            for there in self._last():
                _check_owner(self.where, line, there)
            if not self._store.put_if_absent(key, line):
                raise AnchorsUnavailable(self.where, "adding to", f"{key} is there already")
            return self._store.protection(key)
        except HeadraceError as error:
            if isinstance(error, AnchorsUnavailable):
                raise
            raise AnchorsUnavailable(self.where, "adding to", error.message) from error

    def lines(self) -> Iterator[tuple[str, bytes]]:
        """See `AnchorPlace.lines`."""
        try:
            yield from self._store.versions(self._folder)
        except HeadraceError as error:
            raise AnchorsUnavailable(self.where, "reading", error.message) from error

    def _last(self) -> Iterator[bytes]:
        """The last head; of lakes all, whose names do not rise from one lake to another."""
        last = self._folder == f"{LOG}/"
        try:
            for _, line in self._store.versions(self._folder, last=last):
                yield line
        except StoreDenied:
            return  # Who may only add to a bucket cannot look.


def open_places(locations: str, heads: str = LOG, *, there: bool = False) -> list[AnchorPlace]:
    """The places of an option, which are joined by commas; see `open_place`."""
    named = [one.strip() for one in locations.split(",") if one.strip()]
    return [open_place(one, heads, there=there) for one in named]


def open_place(location: str, heads: str = LOG, *, there: bool = False) -> AnchorPlace:
    """The place at `location`: a file, `git:FOLDER` or `s3://bucket/prefix`; nothing is tried yet.

    Args:
        location: see above.
        heads: `LOG` or `LAKE`; a file holds those of one of them.
        there: whether a file has to exist, since its heads are to be checked and none is added.

    Raises:
        AnchorsMisconfigured: it has another form, or is not there.
        AnchorsMissing: the file does not exist.
    """
    if location.startswith(GIT_SCHEME):
        return GitAnchors(location.removeprefix(GIT_SCHEME), heads)
    if location.startswith(S3_SCHEME):
        from headrace.lake.s3_locked import open_locked  # boto3 takes half a second

        try:
            return S3Anchors(open_locked(location), heads)
        except LakeUnusable as error:
            raise AnchorsMisconfigured(location, error.message) from error
    if "://" in location or not location.strip() or "\0" in location:
        raise AnchorsMisconfigured(location, "it is no such place")
    place = FileAnchors(location)
    if there and not real_path(location).exists():
        raise AnchorsMissing(location)
    return place


def _append_head(where: str, path: Path, line: bytes) -> None:
    try:
        kept = path.read_bytes().rstrip() if path.exists() else b""
        _check_owner(where, line, kept[kept.rfind(b"\n") + 1 :])
        append_line(path, line)
    except OSError as error:
        raise _unavailable(where, "appending to", error) from error


def _check_owner(where: str, line: bytes, last: bytes) -> None:
    """Refuse a head of another log, or lake, than the one that is there already."""
    own, other = _owner_of(line), _owner_of(last)
    if own and other and own != other:
        raise AnchorsUnavailable(
            where,
            "adding to",
            f"it holds heads of {other}, this one is of {own}",
            hint="Name another place: each is of one log, or of one lake",
        )


def _owner_of(line: bytes) -> str:
    """Whose head a line is; empty if it is none."""
    try:
        found = json.loads(line)
        if "head" in found:
            return f"log {found['head']['payload']['store']}"
        return f"lake {found['payload']['lake']}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""


def append_line(path: Path, line: bytes) -> None:
    """Append to a file; a line that a kill left unfinished gets its end first.

    Raises:
        OSError: the disk does not take it.
    """
    made = not path.exists()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = b"\n" + line
        write_all(descriptor, memoryview(line), size)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if made:
        sync_folder(path.parent)


def _numbered(where: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip():
            yield f"{where}, line {number}", line


def _unavailable(where: str, action: str, error: OSError) -> AnchorsUnavailable:
    return AnchorsUnavailable(where, action, error.strerror or str(error))
