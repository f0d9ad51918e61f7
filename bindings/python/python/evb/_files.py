"""Event files: one file, the files of a directory, or standard input."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import warnings
from bisect import bisect_right
from typing import TYPE_CHECKING, Union, overload

from . import _evb, _memory
from ._batch import Batch
from ._errors import DamageWarning, NotFoundError
from ._events import Event, built

if TYPE_CHECKING:
    from collections.abc import Iterator

StrPath = Union[str, "os.PathLike[str]"]

_EVENTS = 4096
"""Default number of events of a batch."""


class EventFile:
    """One event file.

    ``for event in file`` yields the intact events in the order of the file, and issues a
    ``DamageWarning`` for each place that cannot be read. ``len(file)``, ``file[3]`` and
    ``file[10:20]`` count all records, in the same order. Several iterators and threads may read a
    file at the same time.
    """

    def __init__(self, path: StrPath) -> None:
        """Open a file. Raises ``FileError`` if it is not an event file."""
        self.path = os.fspath(path)
        """The path of the file."""
        self._native = _evb.EventFile(self.path)
        self._findings: list[_evb.Finding] | None = None

    @property
    def run(self) -> int:
        """The run number."""
        return self._native.run

    @property
    def epoch(self) -> int:
        """The epoch in which the file was begun."""
        return self._native.epoch

    @property
    def builder(self) -> int | None:
        """The id of the builder that wrote the file; None in a merged file."""
        return self._native.builder

    @property
    def sequence(self) -> int:
        """The number of the file within its run and builder, from 0."""
        return self._native.sequence

    @property
    def created_ns(self) -> int:
        """The time at which the file was begun: nanoseconds since 1970-01-01 UTC."""
        return self._native.created_ns

    @property
    def sources(self) -> list[int]:
        """The source ids of the run."""
        return self._native.sources

    @property
    def creator(self) -> str:
        """The program that wrote the file, with its version."""
        return self._native.creator

    @property
    def size(self) -> int:
        """The size of the file in bytes, at the time of opening."""
        return self._native.size

    @property
    def index(self) -> str:
        """The state of the index: ``present``, ``absent`` (not closed) or ``damaged``."""
        return self._native.index

    @property
    def findings(self) -> list[_evb.Finding]:
        """All damage in the file, in the order of the file. The first call reads the whole file."""
        if self._findings is None:
            self._findings = self._native.findings()
        return self._findings

    def batches(self, events: int = _EVENTS) -> Iterator[Batch]:
        """Iterate over the events in batches of at most ``events``, in the order of the file.

        Every checksum is verified. Damage issues a ``DamageWarning``; ``batch.findings`` has the
        details.
        """
        if events < 1:
            raise ValueError("a batch has at least one event")
        reader = self._native.batches(events)
        while (native := reader.next()) is not None:
            batch = Batch(native, None)
            for finding in batch.findings:
                warnings.warn(finding.text, DamageWarning, stacklevel=2)
            if len(batch):
                yield batch

    def __iter__(self) -> Iterator[Event]:
        """Iterate over the intact events, in the order of the file."""
        for batch in self.batches(256):
            yield from batch

    def __len__(self) -> int:
        """Return the number of records, damaged payloads included."""
        return self._native.records()

    @overload
    def __getitem__(self, position: int) -> Event: ...
    @overload
    def __getitem__(self, position: slice) -> list[Event]: ...
    def __getitem__(self, position: int | slice) -> Event | list[Event]:
        """Return the event at a position, or the events of a slice, in the order of the file.

        Raises ``IndexError`` if there is no such position, and ``FileError`` if the record is
        damaged.
        """
        if isinstance(position, slice):
            return [self[one] for one in range(*position.indices(len(self)))]
        count = len(self)
        if not -count <= position < count:
            raise IndexError(f"{self.path} has {count} events, so there is no position {position}")
        return built(self._native.event_at(position % count))

    def event(self, id: int, epoch: int | None = None) -> Event:
        """Return the event of an id; of several copies the one of the highest epoch.

        Raises ``NotFoundError`` if the file has no such event, and ``FileError`` if the event is
        damaged.
        """
        found = self._native.event(id, epoch) if 0 <= id < 1 << 64 else None
        if found is None:
            of_epoch = "" if epoch is None else f" of epoch {epoch}"
            raise NotFoundError(f"there is no event {id}{of_epoch} in {self.path}")
        return built(found)

    def __repr__(self) -> str:
        return f"<EventFile {self.path!r}: run {self.run}, {len(self)} records>"


class EventFiles:
    """All event files of a directory, in the order of their names, as one sequence of events.

    It has the methods of ``EventFile``. The events of several builders come one file after the
    other; ``evbd merge`` writes a run in the order of its events.
    """

    def __init__(self, path: str, files: list[EventFile]) -> None:
        self.path = path
        """The path of the directory."""
        self.files = files
        """The files."""

    @property
    def findings(self) -> list[_evb.Finding]:
        """All damage in all files. The first call reads all files."""
        return [finding for file in self.files for finding in file.findings]

    def batches(self, events: int = _EVENTS) -> Iterator[Batch]:
        """Iterate over batches of at most ``events``; a batch has events of one file only."""
        for file in self.files:
            yield from file.batches(events)

    def __iter__(self) -> Iterator[Event]:
        """Iterate over the intact events, file by file."""
        for file in self.files:
            yield from file

    def __len__(self) -> int:
        """Return the number of records."""
        return sum(map(len, self.files))

    @overload
    def __getitem__(self, position: int) -> Event: ...
    @overload
    def __getitem__(self, position: slice) -> list[Event]: ...
    def __getitem__(self, position: int | slice) -> Event | list[Event]:
        """Return the event at a position, or the events of a slice, as ``EventFile`` does."""
        if isinstance(position, slice):
            return [self[one] for one in range(*position.indices(len(self)))]
        ends = [0]
        for file in self.files:
            ends.append(ends[-1] + len(file))
        if not -ends[-1] <= position < ends[-1]:
            raise IndexError(f"{self.path} has {ends[-1]} events, so there is no position {position}")
        position %= ends[-1]
        place = bisect_right(ends, position) - 1
        return self.files[place][position - ends[place]]

    def event(self, id: int, epoch: int | None = None) -> Event:
        """Return the event of an id; of several copies the one of the highest epoch.

        Raises ``NotFoundError`` if no file has such an event.
        """
        found = None
        for file in self.files:
            try:
                event = file.event(id, epoch)
            except NotFoundError:
                continue
            if found is None or event.epoch > found.epoch:
                found = event
        if found is None:
            of_epoch = "" if epoch is None else f" of epoch {epoch}"
            raise NotFoundError(f"there is no event {id}{of_epoch} in {self.path}")
        return found

    def __repr__(self) -> str:
        return f"<EventFiles {self.path!r}: {len(self.files)} files, {len(self)} records>"


def open(path: StrPath) -> EventFile | EventFiles:
    """Open an event file, a directory of event files, or ``"-"`` for standard input.

    Standard input is copied to a temporary file up to its end, and then read.

    Raises ``FileNotFoundError`` if there is nothing at the path or the directory has no event
    files, and ``FileError`` if a file is no event file.
    """
    name = os.fspath(path)
    if name == "-":
        return _standard_input()
    if not os.path.isdir(name):
        os.stat(name)
        return EventFile(name)
    files = sorted(entry.path for entry in os.scandir(name) if entry.name.endswith(".evb"))
    if not files:
        raise FileNotFoundError(f"no event files (*.evb) in {name}")
    return EventFiles(name, [EventFile(file) for file in files])


def _standard_input() -> EventFile:
    stream = sys.stdin.buffer
    with tempfile.TemporaryFile(suffix=".evb") as spool:
        shutil.copyfileobj(stream, spool, 1 << 20)
        spool.flush()
        # The native part opens the file once more, before its name and this descriptor vanish.
        return EventFile(f"/proc/self/fd/{spool.fileno()}")
