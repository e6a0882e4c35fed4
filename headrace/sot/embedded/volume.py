"""One append-only file of entries, shared by any number of processes.

**Locks.** An append holds the file's lock (flock) alone, a look holds it shared; both first read
what others have appended since. So a reader never meets a half-written entry of a living writer,
and two writers decide by the same head. Within a process a mutex does the same for threads.

**Durability.** An append is one write and one fdatasync. If either fails, nothing is acknowledged:
the file is cut back to where it was, or, if even that fails, the volume takes no more appends from
this process.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from headrace.atomic_files import write_all
from headrace.kill_points import kill_point
from headrace.locks import LockTimeout, lock, try_lock
from headrace.sot.embedded.entries import (
    FORMAT,
    HEADER_BYTES,
    TRAILER_MAGIC,
    BadEntry,
    Entry,
    Found,
    TornTail,
    check_of,
    decompress,
    unpack,
    walk,
)
from headrace.sot.embedded.files import (
    PREAMBLE_BYTES,
    TIP_EVERY_ENTRIES,
    Tip,
    copy_out,
    create_volume,
    newer_format,
    preamble,
    read_tip,
    write_tip,
)
from headrace.sot.embedded.index import SymbolIndex, VolumeIndex, damage_at
from headrace.sot.exceptions import DamagedLog, NewerLog, StoreUnavailable

#: Reads the index under the lock and returns what to append.
Plan = Callable[["Volume"], Sequence[tuple[Entry, bytes]]]


class Volume:
    """`volume-NN.sot` and its index.

    Args:
        path: the file; made by the first append.
        number: which volume of the store it is.
        report_torn: called with a torn tail that was cut.
    """

    def __init__(self, path: Path, number: int, report_torn: Callable[[TornTail], None]) -> None:
        self.path = path
        self.number = number
        self._report_torn = report_torn
        self._mutex = threading.RLock()
        self._broken = ""
        self._wrote = False
        self._start_unread()

    def _start_unread(self) -> None:
        """Begin with nothing known of the file."""
        self._contents = VolumeIndex(self.path, self.read)
        self.torn: TornTail | None = None
        self._descriptor: int | None = None
        self._tip_entries = 0
        self._read_only: OSError | None = None
        self._end_checked = False

    @property
    def symbols(self) -> dict[int, SymbolIndex]:
        """What it holds of each symbol, as far as it was read."""
        return self._contents.symbols

    @property
    def damages(self) -> list[DamagedLog]:
        """What was found wrong with it so far."""
        return self._contents.damages

    @property
    def _tip_path(self) -> Path:
        return self.path.with_suffix(".tip")

    def index(self, symbol_id: int) -> SymbolIndex:
        """What is known of the symbol, to plan an append by; an empty index if nothing is.

        That one is not kept: the append may fail, and then the volume does not hold the symbol.
        """
        return self.symbols.get(symbol_id) or SymbolIndex(symbol_id)

    @property
    def unread(self) -> bool:
        """Whether the file may hold what is not in the index; without its lock.

        Raises:
            OSError: the file cannot be looked at.
        """
        return self._descriptor is None or self.path.stat().st_size != self._contents.end

    @contextmanager
    def reading(self) -> Iterator[bool]:
        """Hold the file still and the index up to date; False if there is no file yet."""
        with self._mutex:
            if self._descriptor is None and not self._open(create=False):
                yield False
                return
            with self._locked(shared=True):
                self._catch_up()
                yield True

    def known_blocks(self, symbol_id: int, from_seq: int, to_seq: int) -> list[int] | None:
        """Offsets of the blocks with these records, without a look at the file.

        None unless the index has all of them: what it has of a sound volume stays as it is.
        """
        with self._mutex:
            index = self.symbols.get(symbol_id)
            if self._descriptor is None or self.damages or index is None or index.position is None:
                return None
            if to_seq >= index.position.next_seq:
                return None
            return list(index.blocks(from_seq, to_seq))

    def look(self) -> bool:
        """Bring the index up to date, unless an append is under way; whether it is.

        An append holds the file until the disk has it: what it adds is not durable before that.
        """
        with self._mutex:
            if self._descriptor is None and not self._open(create=False):
                return True
            descriptor = self._opened()
            try:
                if not try_lock(descriptor, shared=True):
                    return False
            except OSError as error:
                raise self._unavailable("locking", error) from error
            try:
                self._catch_up()
            finally:
                if self._descriptor is not None:
                    fcntl.flock(descriptor, fcntl.LOCK_UN)
            return True

    def append(self, plan: Plan) -> None:
        """Append what `plan` decides in view of the index; durable when it returns.

        Raises:
            DamagedLog: the volume is damaged; nothing is appended to it.
            StoreUnavailable: it could not be written; nothing was acknowledged.
        """
        with self._mutex:
            if self._descriptor is None:
                self._open(create=True)
            if self._read_only is not None:
                raise self._unavailable("writing", self._read_only)
            with self._locked(shared=False):
                self._catch_up()
                if self.damages:  # what looks like a torn tail may be evidence then: it stays
                    raise self.damages[0]
                if self.torn is not None:
                    self._cut_torn_tail(self.torn)
                if self._broken:
                    raise StoreUnavailable(str(self.path), "writing", self._broken)
                entries = plan(self)
                if entries:
                    self._write(entries)
                    if self._contents.entries - self._tip_entries >= TIP_EVERY_ENTRIES:
                        self._write_tip()

    def read(self, offset: int) -> tuple[Entry, bytes]:
        """The entry at `offset` with its payload, every byte of it checked.

        Raises:
            DamagedLog: it is not what was written.
            StoreUnavailable: the disk does not give it.
        """
        descriptor = self._opened()
        entry: Entry | None = None
        try:
            entry = unpack(os.pread(descriptor, HEADER_BYTES, offset))
            rest = os.pread(descriptor, entry.size_bytes - HEADER_BYTES, offset + HEADER_BYTES)
            if rest[entry.stored_bytes :] != entry.packed(TRAILER_MAGIC):
                raise BadEntry("its second header differs from its first")
            return entry, decompress(entry, rest[: entry.stored_bytes])
        except BadEntry as error:
            raise damage_at(self.path, offset, str(error), entry) from error
        except OSError as error:
            raise self._unavailable("reading", error) from error

    def close(self) -> None:
        """Write the tip if it lags, and close the file."""
        with self._mutex:
            if self._descriptor is None:
                return
            try:
                if self._wrote and self._tip_entries < self._contents.entries:
                    with self._locked(shared=False):
                        self._write_tip()
            finally:
                os.close(self._descriptor)
                self._descriptor = None

    def _opened(self) -> int:
        if self._descriptor is None:
            raise RuntimeError(f"{self.path} is not open")
        return self._descriptor

    def _open(self, *, create: bool) -> bool:
        """Open the file and take in its tip, both or neither; whether there is a file.

        Without the tip nothing would miss records that were cut off the end, and the next append
        would take their place.
        """
        descriptor, read_only = self._open_file(create=create)
        if descriptor is None:
            return False
        try:
            self._check_preamble(descriptor)
            try:
                self._contents.tip = self._read_tip()
            except DamagedLog as error:
                self.damages.append(error)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor, self._read_only = descriptor, read_only
        self._tip_entries = self._contents.tip.entries if self._contents.tip else 0
        return True

    def _open_file(self, *, create: bool) -> tuple[int | None, OSError | None]:
        """The file's descriptor, None if there is no file; and why it may not be written, if so."""
        try:
            try:
                return os.open(self.path, os.O_RDWR | os.O_CLOEXEC), None
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                    raise
                return os.open(self.path, os.O_RDONLY | os.O_CLOEXEC), error
        except FileNotFoundError:
            tip = self._read_tip()
            if tip is not None:
                if self.path.exists():  # another process made the file, and its tip, just now
                    return self._open_file(create=create)
                if not self.damages:
                    self._contents.note_missing_end(tip)
                raise self.damages[0] from None
            if not create:
                return None, None
            return self._create(), None
        except IsADirectoryError:
            raise self._unreadable(str(self.path), "it is a folder") from None
        except OSError as error:
            raise self._unavailable("opening", error) from error

    def _read_tip(self) -> Tip | None:
        try:
            return read_tip(self._tip_path)
        except OSError as error:
            raise self._unavailable(f"reading {self._tip_path.name} beside it", error) from error

    def _create(self) -> int:
        try:
            create_volume(self.path, self.number)
            return os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise self._unavailable("making it", error) from error

    def _check_preamble(self, descriptor: int) -> None:
        try:
            found = os.pread(descriptor, PREAMBLE_BYTES, 0)
        except OSError as error:
            raise self._unavailable("reading", error) from error
        if found == preamble(self.number):
            return
        newer = newer_format(found, self.number)
        if newer is not None:
            raise NewerLog(str(self.path), newer, FORMAT)
        raise self._unreadable(f"{self.path} at byte 0", "it does not begin as this volume does")

    def _unreadable(self, where: str, reason: str) -> DamagedLog:
        """Damage to the volume as a whole; whose chains it held, only its tip still knows."""
        hint = "Put the file back from a copy; what other volumes hold is not concerned"
        with suppress(DamagedLog, OSError):
            tip = read_tip(self._tip_path)
            for symbol_id in tip.heads if tip else ():
                damage = DamagedLog(where, reason, symbol_id=symbol_id, hint=hint)
                self._contents.index_of(symbol_id).mark_damaged(damage)
        return DamagedLog(where, reason, hint=hint)

    @contextmanager
    def _locked(self, *, shared: bool) -> Iterator[None]:
        descriptor = self._opened()
        try:
            lock(descriptor, self.path, shared=shared)
        except LockTimeout as error:
            raise StoreUnavailable(
                str(self.path), "locking", error.message, hint=error.hint
            ) from error
        try:
            yield
        finally:
            if self._descriptor is not None:
                fcntl.flock(descriptor, fcntl.LOCK_UN)

    def _catch_up(self) -> None:
        """Take in what was appended since the last look.

        The first look ends with the check of the volume's end. If it does not come that far, all
        that it took in is dropped and the file is closed: the next call begins from the start.
        """
        try:
            last = self._read_new(self._opened())
            if not self._end_checked:
                self._contents.check_end(last)
                self._end_checked = True
        except OSError as error:
            raise self._unavailable("reading", error) from error
        finally:
            if not self._end_checked:
                os.close(self._opened())  # this releases its lock, too
                self._start_unread()

    def _read_new(self, descriptor: int) -> Found | None:
        """Take in what lies behind what is known; the last entry, if it is sound."""
        contents = self._contents
        size = os.fstat(descriptor).st_size
        if size < contents.end:
            raise DamagedLog(
                f"{self.path} at byte {size}", f"it was {contents.end} bytes long a moment ago"
            )
        self.torn = None
        last: Found | None = None
        if size > contents.end:
            steps = walk(
                descriptor,
                str(self.path),
                contents.end,
                size,
                contents.entries,
                contents.last_check,
            )
            for step in steps:
                if isinstance(step, TornTail):
                    self.torn = step
                else:
                    last = contents.add(step)
        return last

    def _cut_torn_tail(self, torn: TornTail) -> None:
        """Keep a copy of the torn bytes beside the volume, then cut them off."""
        descriptor = self._opened()
        copy = self.path.with_name(f"{self.path.name}.torn-{torn.offset}-{secrets.token_hex(4)}")
        try:
            copy_out(descriptor, torn, copy)
            os.ftruncate(descriptor, torn.offset)
            os.fsync(descriptor)
        except OSError as error:
            raise self._unavailable("cutting a torn tail", error) from error
        self.torn = None
        self._report_torn(torn)

    def _write(self, entries: Sequence[tuple[Entry, bytes]]) -> None:
        descriptor = self._opened()
        pieces: list[bytes] = []
        placed: list[tuple[Entry, int]] = []
        contents = self._contents
        end, number, check = contents.end, contents.entries, contents.last_check
        for entry, stored in entries:
            final = entry.placed(number, check)
            header = final.packed()
            pieces += (header, stored, final.packed(TRAILER_MAGIC))
            placed.append((final, end))
            end += final.size_bytes
            number, check = number + 1, check_of(header)
        content = memoryview(b"".join(pieces))
        half = len(content) // 2
        try:
            write_all(descriptor, content[:half], contents.end)
            kill_point("during-append")
            write_all(descriptor, content[half:], contents.end + half)
            kill_point("before-append-sync")
            os.fdatasync(descriptor)
            kill_point("after-append")
        except OSError as error:
            self._undo_append(descriptor, error)
            raise self._unavailable("writing", error) from error
        self._wrote = True
        for final, offset in placed:
            contents.add_entry(final, offset)
        contents.end, contents.entries, contents.last_check = end, number, check

    def _undo_append(self, descriptor: int, cause: OSError) -> None:
        """Cut off what a failed append left; a failed sync leaves nothing to trust."""
        if cause.errno != errno.ENOSPC:
            self._broken = f"an earlier append failed: {cause.strerror}"
        try:
            os.ftruncate(descriptor, self._contents.end)
        except OSError as error:
            self._broken = f"a failed append could not be taken back: {error.strerror}"

    def _write_tip(self) -> None:
        """Note how far the volume goes, as far as this process has read it.

        Under the file's lock: a tip of another process that says more is left in its place.
        """
        there = self._read_tip()
        if there is not None and there.entries >= self._contents.entries:
            self._tip_entries = there.entries
            return
        contents = self._contents
        try:
            tip = Tip(contents.end, contents.entries, contents.last_check, contents.heads)
            write_tip(self._tip_path, tip)
        except OSError as error:
            raise self._unavailable("writing its tip", error) from error
        self._tip_entries = contents.entries

    def _unavailable(self, action: str, error: OSError) -> StoreUnavailable:
        hint = {
            errno.ENOSPC: "Free some space and start again; what was acknowledged is safe",
            errno.EACCES: "Make the folder and its files readable and writable for this user",
            errno.EROFS: "Make the folder and its files readable and writable for this user",
        }.get(error.errno or 0, "")
        return StoreUnavailable(str(self.path), action, error.strerror or str(error), hint=hint)
