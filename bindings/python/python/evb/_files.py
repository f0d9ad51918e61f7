"""Event files: one file, the files of a directory, or standard input."""

from __future__ import annotations

import itertools
import os
import re
import resource
import shutil
import sys
import tempfile
import warnings
from bisect import bisect_right
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Union, overload

from . import _evb
from ._batch import Batch
from ._errors import DamageWarning, FileError, NotFoundError, RunsError
from ._events import Change, Episode, Event, built

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

StrPath = Union[str, bytes, "os.PathLike[str]"]

_EVENTS = 4096
"""Default number of events of a batch."""


def _utc(unix_ns: int) -> datetime | None:
    if not unix_ns:
        return None
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=unix_ns // 1000)


class _OfRun:
    """What the headers of files say of their run."""

    def _headers(self) -> list[_evb.EventFile]:
        raise NotImplementedError

    @property
    def number(self) -> int:
        """The run number."""
        return self._headers()[0].run

    @property
    def id(self) -> str:
        """The identity of the run: 32 hexadecimal digits; empty for files of format 1.

        If the headers of all files were recovered from records, only the first 8 digits are known,
        and the others are zeros.
        """
        # Files with a whole id come first; those whose other digits are lost end with zeros.
        return max((header.run_id for header in self._headers()), key=lambda id: (bool(id), id[8:]))

    @property
    def begin_ns(self) -> int:
        """The begin of the run: nanoseconds since 1970-01-01 UTC, by the supervisor; 0: unknown."""
        return max(header.begin_ns for header in self._headers())

    @property
    def begin(self) -> datetime | None:
        """``begin_ns`` in UTC, to microseconds; None if it is not known."""
        return _utc(self.begin_ns)

    @property
    def clock_synchronised(self) -> bool | None:
        """What the kernel said of the supervisor's clock at the begin of the run; None: unknown."""
        said = [header.clock_synchronised for header in self._headers()]
        return next((one for one in said if one is not None), None)

    @property
    def kind(self) -> str:
        """The kind of the run."""
        return next((header.kind for header in self._headers() if header.kind), "")

    @property
    def comment(self) -> str:
        """The comment on the run."""
        return next((header.comment for header in self._headers() if header.comment), "")

    @property
    def alignment(self) -> list[Episode]:
        """What happened to the timestamps of sources, in the order of the first events.

        The files have what the run found out; an empty list if all was well, or nothing was
        compared.
        """
        found: dict[tuple[int, int], Episode] = {}
        for header in self._headers():
            for told in header.episodes():
                episode = Episode(*told)
                known = found.get((episode.since, episode.source))
                if known is None or episode.until is not None:
                    found[episode.since, episode.source] = episode
        return [found[key] for key in sorted(found)]

    @property
    def changes(self) -> list[Change]:
        """Which sources an operator excluded or included, in the order of the first events."""
        found = _evb.EventFile.changes(self._headers())
        return [Change(source, excluded, event, _utc(utc), why) for source, excluded, event, utc, why in found]

    def _paths(self) -> list[str]:
        raise NotImplementedError

    _epoch: tuple[int, int] | None = None

    def realigned(self) -> Iterator[Event]:
        """Iterate over the events in the order of their ids, with slips repaired.

        Where ``alignment`` says that a source slipped, its fragments come with the events to which
        they belong, with ``fragment.alignment == "moved"``. An event for which no such fragment
        exists names the source in ``missing``. Of several copies of an event, the one of the
        highest epoch comes. Damage issues a ``DamageWarning``.
        """
        native = _evb.Realigned(self._paths(), self._epoch)
        while (event := native.next()) is not None:
            yield built(event)
        for text in native.damage():
            warnings.warn(text, DamageWarning, stacklevel=2)

    @property
    def sources(self) -> list[int]:
        """The source ids of the run."""
        return sorted({source for header in self._headers() for source in header.sources})

    @property
    def source_names(self) -> dict[int, str]:
        """The names of sources that have one."""
        return {id: name for header in self._headers() for id, name in header.source_names.items()}

    @property
    def builder_names(self) -> dict[int, str]:
        """The names of builders that have one."""
        return {id: name for header in self._headers() for id, name in header.builder_names.items()}


class EventFile(_OfRun):
    """One event file.

    ``for event in file`` yields the intact events in the order of the file, and issues a
    ``DamageWarning`` for each place that cannot be read. ``len(file)``, ``file[3]`` and
    ``file[10:20]`` count all records, in the same order. Several iterators and threads may read a
    file at the same time.
    """

    def __init__(self, path: StrPath, epoch: tuple[int, int] | None = None, *, aligned: bool = False) -> None:
        """Open a file; with ``epoch``, only its records of the epochs from the first to the last.

        With ``aligned=True``, events with a fragment that disagrees are left out.

        A damaged header is recovered from other parts of the file if that is possible, with a
        ``DamageWarning``. Raises ``FileError`` if it is not an event file.
        """
        self.path = os.fsdecode(path)
        """The path of the file."""
        self._native = _evb.EventFile(self.path, epoch, bool(aligned))
        self._aligned = bool(aligned)
        self._epoch = epoch
        self._findings: list[_evb.Finding] | None = None
        if (finding := self._native.header_finding()) is not None:
            warnings.warn(finding.text, DamageWarning, stacklevel=2)

    def _headers(self) -> list[_evb.EventFile]:
        return [self._native]

    def _paths(self) -> list[str]:
        return [self.path]

    @property
    def run(self) -> int:
        """The run number."""
        return self._native.run

    @property
    def format(self) -> int:
        """The version of the file's format: 1 or 2."""
        return self._native.format

    @property
    def recovered(self) -> str | None:
        """The part of the file from which its damaged header was recovered.

        ``closing block``: everything is known; ``records``: only run, builder and the first digits
        of the run id. None if the header is intact.
        """
        return self._native.recovered

    @property
    def epoch(self) -> int:
        """The epoch of the run; the records may belong to later epochs."""
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
            raise ValueError(f"events={events}: a batch has at least one event; give 1 or more")
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
            raise IndexError(f"{self.path} has {count} events, with positions from 0 on, and none at position {position}; give a position below their number")
        return built(self._native.event_at(position % count))

    def event(self, id: int, epoch: int | None = None) -> Event:
        """Return the event of an id; of several copies the one of the highest epoch.

        Raises ``NotFoundError`` if the file has no such event, and ``FileError`` if the event is
        damaged.
        """
        return _the_event(self._event(id, epoch), id, epoch, self._aligned, self.path)

    def _event(self, id: int, epoch: int | None) -> Event | None:
        """Return the event of an id, aligned or not; None if the file has none."""
        found = self._native.event(id, epoch) if 0 <= id < 1 << 64 else None
        return None if found is None else built(found)

    def __repr__(self) -> str:
        return f"<EventFile {self.path!r}: run {self.run}, {len(self)} records>"


class EventFiles(_OfRun):
    """The event files of one run, as one sequence of events.

    It has the methods of ``EventFile``. The events of several builders come one file after the
    other; ``evbd merge`` writes a run in the order of its events.
    """

    def __init__(self, path: str, files: list[EventFile], unreadable: list[str]) -> None:
        self.path = path
        """The path of the directory, or several paths with commas between them."""
        self.files = files
        """The files."""
        self.unreadable = unreadable
        """Why other files at the path cannot be read; a warning has told each."""

        self._epoch = next((file._epoch for file in files), None)

    def _headers(self) -> list[_evb.EventFile]:
        return [file._native for file in self.files]

    def _paths(self) -> list[str]:
        return [file.path for file in self.files]

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
            raise IndexError(f"{self.path} has {ends[-1]} events, with positions from 0 on, and none at position {position}; give a position below their number")
        position %= ends[-1]
        place = bisect_right(ends, position) - 1
        return self.files[place][position - ends[place]]

    def event(self, id: int, epoch: int | None = None) -> Event:
        """Return the event of an id; of several copies the one of the highest epoch.

        Raises ``NotFoundError`` if no file has such an event.
        """
        found = None
        for file in self.files:
            # The copy that counts may be the one that is left out.
            event = file._event(id, epoch)
            if event is not None and (found is None or event.epoch > found.epoch):
                found = event
        aligned = any(file._aligned for file in self.files)
        return _the_event(found, id, epoch, aligned, self.path)

    def __repr__(self) -> str:
        return f"<EventFiles {self.path!r}: {len(self.files)} files, {len(self)} records>"


def _the_event(found: Event | None, id: int, epoch: int | None, aligned: bool, path: str) -> Event:
    """Return the event that was looked for, or raise ``NotFoundError`` with the reason."""
    of_epoch = "" if epoch is None else f" of epoch {epoch}"
    if found is None:
        raise NotFoundError(f"there is no event {id}{of_epoch} in {path}; give another event id, or look for it in other files of the run")
    if aligned and not found.aligned:
        sources = " and of ".join(f"source {fragment.source}" for fragment in found.fragments if fragment.aligned is False)
        raise NotFoundError(
            f"event {id}{of_epoch} in {path} is not aligned (the timestamp of {sources} disagrees with the others): open without aligned=True to read it"
        )
    return found


def open(
    path: StrPath | Sequence[StrPath],
    run: int | str | None = None,
    *,
    same_run: bool = False,
    epoch: tuple[int, int] | None = None,
    aligned: bool = False,
) -> EventFile | EventFiles:
    """Open the event files of one run.

    ``path`` is an event file, a directory (which stands for all ``*.evb`` in it), a list of these,
    or ``"-"`` for standard input, which is copied to a temporary file up to its end. One file
    opens as an ``EventFile``; a directory or a list as ``EventFiles``.

    ``run`` chooses a run: a number, or as a text at least the first 4 digits of a run id. Without
    it, the files must be of one run. Files of format 1 have no run id; they are of one run if their
    headers have the same epoch, or if their records link them. ``same_run=True`` takes all files
    with one run number and without a run id for one run, and so does ``epoch=(a, b)``, which reads
    only the records of the epochs from ``a`` to ``b``.

    ``aligned=True`` leaves out events with a fragment that disagrees: its time is not that of the
    event. Events whose fragments were not checked stay.

    Raises ``FileNotFoundError`` if there is nothing at a path or there are no event files,
    ``FileError`` if no file is an event file, and ``RunsError`` if the files are of several runs. A
    file of several that cannot be read costs only itself: a ``DamageWarning`` names it, and so does
    ``unreadable``.
    """
    if isinstance(path, (str, bytes, os.PathLike)):
        name = os.fsdecode(path)
        if name == "-":
            return _standard_input(epoch, aligned)
        if not os.path.isdir(name):
            os.stat(name)
            if run is not None:
                _chosen([name], run, same_run)
            return EventFile(name, epoch, aligned=aligned)
        names = [name]
    else:
        names = [os.fsdecode(one) for one in path]
    files: list[str] = []
    others: list[str] = []
    for name in names:
        if os.path.isdir(name):
            found = sorted((entry.path for entry in os.scandir(name) if entry.name.endswith(".evb")), key=_by_number)
        else:
            os.stat(name)
            found = [name]
        files += filter(os.path.isfile, found)
        others += itertools.filterfalse(os.path.isfile, found)
    if not files and not others:
        where = ", ".join(names) or "an empty list"
        raise FileNotFoundError(f"no event files (*.evb) in {where}; give the directory of a sink, or its files")
    strange = [
        f"cannot read {other}: it is not a regular file; give an event file, or a directory of event files" for other in others
    ]
    if not files:
        raise FileError(strange[0])
    chosen, unreadable = _chosen(files, run, same_run or epoch is not None)
    unreadable += strange
    for reason in unreadable:
        warnings.warn(reason, DamageWarning, stacklevel=2)
    _permit_open_files(len(chosen))
    opened = [EventFile(file, epoch, aligned=aligned) for file in chosen]
    return EventFiles(", ".join(names), opened, unreadable)


def _permit_open_files(count: int) -> None:
    """Raise this process's limit of open files if ``count`` more files would exceed it.

    A shell usually permits 1024, and lets a process raise that. Where it does not, opening the
    files raises the error that names the first one for which there is no room.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = len(os.listdir("/proc/self/fd")) + count + 64
    if soft != resource.RLIM_INFINITY and soft < needed:
        most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _by_number(path: str) -> tuple[list[str | int], str]:
    """Return a key by which numbers in names count by their values: file 10000 follows file 9999."""
    parts = re.split("([0-9]+)", os.path.basename(path))
    return [int(part) if place % 2 else part for place, part in enumerate(parts)], path


def _chosen(files: list[str], run: int | str | None, same_run: bool) -> tuple[list[str], list[str]]:
    """Return the files of the only run, or of the chosen one, and why others cannot be read."""
    runs, unreadable = _evb.find_runs(files, same_run)
    if not runs:
        raise FileError(unreadable[0])
    there = ", ".join(text for *_, text in runs)
    chosen = runs
    if isinstance(run, str):
        digits = run.lower()
        if not 4 <= len(digits) <= 32 or set(digits) - set("0123456789abcdef"):
            raise ValueError(f"run={run!r}: give a run number, or as a text at least 4 digits of a run id (0-9 and a-f)")
        chosen = [one for one in runs if one[1].startswith(digits)]
    elif run is not None:
        chosen = [one for one in runs if one[0] == run]
    if not chosen:
        raise RunsError(
            f"none of the files is of run {run}, but of {there}: choose one of these, or give the files of run {run}"
        )
    if len(chosen) > 1:
        unknown = [number for number, id, *_ in chosen if not id]
        shared = len({number for number, *_ in chosen}) < len(chosen)
        way_out = f"choose one with run=, by {'the first digits of its id, as a text' if shared else 'its number'}"
        if len(unknown) > len(set(unknown)):
            way_out = "choose the records of one with epoch=(first, last), its first and last epoch, or take them for one run with same_run=True"
        listed = ", ".join(text for *_, text in chosen)
        raise RunsError(f"the files are of {len(chosen)} runs: {listed}; {way_out}")
    return [os.fspath(file) for file in chosen[0][3]], unreadable


def _standard_input(epoch: tuple[int, int] | None, aligned: bool) -> EventFile:
    stream = sys.stdin.buffer
    with tempfile.TemporaryFile(suffix=".evb") as spool:
        shutil.copyfileobj(stream, spool, 1 << 20)
        spool.flush()
        # The native part opens the file once more, before its name and this descriptor vanish.
        return EventFile(f"/proc/self/fd/{spool.fileno()}", epoch, aligned=aligned)
