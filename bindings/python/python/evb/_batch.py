"""Batches: many events at once, as columns of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from . import _memory
from ._events import Event, Fragment, alignment_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    from . import _evb


class Columns(NamedTuple):
    """The events of a batch as NumPy arrays, for *n* events with *f* fragments in all.

    All arrays are read-only views of memory that belongs to the batch; nothing is copied.
    """

    event: npt.NDArray[np.uint64]
    """Event ids; shape (n,)."""
    builder: npt.NDArray[np.uint16]
    """Builder ids; shape (n,)."""
    epoch: npt.NDArray[np.uint64]
    """Epochs; shape (n,)."""
    triggered_ns: npt.NDArray[np.uint64]
    """Times of the triggers in nanoseconds, on the builders' clocks; shape (n,)."""
    utc: npt.NDArray[np.datetime64]
    """Times of the triggers in UTC, on the run's scale, ``datetime64[ns]``; 1970-01-01: unknown;
    shape (n,)."""
    tag: npt.NDArray[np.uint64]
    """Numbers that filters gave the events; 0: none; shape (n,)."""
    missing: npt.NDArray[np.uint16]
    """Ids of missing sources, of one event after the other."""
    missing_cause: npt.NDArray[np.uint8]
    """Codes of the causes for which they are missing; ``evb.cause_text`` gives the words."""
    first_missing: npt.NDArray[np.uint64]
    """Event i lacks the sources ``missing[first_missing[i]:first_missing[i + 1]]``; shape (n + 1,)."""
    absent: npt.NDArray[np.uint16]
    """Ids of sources that are excluded or expendable and did not contribute, like ``missing``."""
    absent_cause: npt.NDArray[np.uint8]
    """Codes of the causes for which they are absent."""
    first_absent: npt.NDArray[np.uint64]
    """Like ``first_missing``, for ``absent``; shape (n + 1,)."""
    first_fragment: npt.NDArray[np.uint64]
    """Event i has the fragments ``first_fragment[i]`` to ``first_fragment[i + 1]``; shape (n + 1,)."""
    source: npt.NDArray[np.uint16]
    """Source ids of the fragments; shape (f,)."""
    timestamp: npt.NDArray[np.uint64]
    """Timestamps of the fragments, in ticks of the detector's clock; shape (f,)."""
    alignment: npt.NDArray[np.uint8]
    """Codes of the states of alignment of the fragments; ``evb.alignment_text`` gives the words; shape (f,)."""
    lost_packets: npt.NDArray[np.uint32]
    """Numbers of packets of the fragments that were lost before they reached their sources; shape (f,)."""
    offset: npt.NDArray[np.uint64]
    """Offsets of the payloads in ``data``, in bytes; shape (f,)."""
    length: npt.NDArray[np.uint32]
    """Lengths of the payloads in bytes; shape (f,)."""
    data: npt.NDArray[np.uint8]
    """The bytes of the batch as they are in the file. Payloads lie in it at their offsets."""


class Batch:
    """Intact events of one file that follow each other, and the damage among them."""

    def __init__(self, native: _evb.Batch, data: memoryview | None) -> None:
        self._native = native
        self._data = data
        self._columns: Columns | None = None

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self._native)

    @property
    def findings(self) -> list[_evb.Finding]:
        """Damage that was found before, between or after the events of this batch."""
        return self._native.findings()

    @property
    def data(self) -> memoryview:
        """The bytes of the batch as they are in the file, read-only."""
        if self._data is None:
            self._data = _memory.view(self._native.data())
        return self._data

    def _column(self, name: str) -> memoryview:
        return _memory.view(self._native.column(name))

    def columns(self) -> Columns:
        """Return the batch as NumPy arrays; see ``Columns`` for shapes and units."""
        if self._columns is None:

            def array(name: str, dtype: str) -> npt.NDArray[Any]:
                return _memory.array(self._column(name), dtype)

            self._columns = Columns(
                event=array("events", "<u8"),
                builder=array("builders", "<u2"),
                epoch=array("epochs", "<u8"),
                triggered_ns=array("triggered", "<u8"),
                utc=array("utc", "<M8[ns]"),
                tag=array("tags", "<u8"),
                missing=array("missing", "<u2"),
                missing_cause=array("causes", "u1"),
                first_missing=array("first_missing", "<u8"),
                absent=array("absent", "<u2"),
                absent_cause=array("absent_causes", "u1"),
                first_absent=array("first_absent", "<u8"),
                first_fragment=array("first_fragments", "<u8"),
                source=array("sources", "<u2"),
                timestamp=array("timestamps", "<u8"),
                alignment=array("alignments", "u1"),
                lost_packets=array("lost_packets", "<u4"),
                offset=array("offsets", "<u8"),
                length=array("lengths", "<u4"),
                data=_memory.array(self.data, "u1"),
            )
        return self._columns

    def __iter__(self) -> Iterator[Event]:
        """Iterate over the events of the batch."""
        ids, runs = self._column("events").cast("Q"), self._column("runs").cast("I")
        epochs, builders = self._column("epochs").cast("Q"), self._column("builders").cast("H")
        triggered, utc = self._column("triggered").cast("Q"), self._column("utc").cast("Q")
        tags = self._column("tags").cast("Q")
        missing, absent = self._without("missing", "causes"), self._without("absent", "absent_causes")
        run_ids, run_id = dict(self._native.run_ids()), ""
        first_fragments = self._column("first_fragments").cast("Q")
        fragments = list(self._fragments())
        for row, id in enumerate(ids):
            run_id = run_ids.get(row, run_id)
            head = (id, runs[row], epochs[row], builders[row], triggered[row], utc[row], run_id, tags[row])
            parts = fragments[first_fragments[row] : first_fragments[row + 1]]
            yield Event(head, next(missing), next(absent), parts)

    def _without(self, name: str, causes: str) -> Iterator[tuple[list[int], bytes]]:
        """Yield for each event the sources of a list, and the codes of the causes."""
        first = self._column(f"first_{name}").cast("Q")
        sources, codes = self._column(name).cast("H"), self._column(causes)
        for begin, end in zip(first, first[1:]):
            yield (sources[begin:end].tolist(), bytes(codes[begin:end])) if begin < end else ([], b"")

    def _fragments(self) -> Iterator[Fragment]:
        data = self.data
        sources, times = self._column("sources").cast("H"), self._column("timestamps").cast("Q")
        offsets, lengths = self._column("offsets").cast("Q"), self._column("lengths").cast("I")
        checksums, states = self._column("checksums").cast("Q"), self._column("alignments")
        columns = sources, times, offsets, lengths, checksums, states, self._column("lost_packets").cast("I")
        for source, time, offset, length, checksum, state, lost in zip(*columns):
            yield Fragment(source, time, data[offset : offset + length], checksum, alignment_text(state), lost)

    def to_arrow(self) -> Any:
        """Return the batch as a ``pyarrow.RecordBatch`` with one row for each event.

        The columns are ``event``, ``builder``, ``epoch``, ``utc_ns``, ``missing`` and ``absent`` (lists
        of ``source`` and ``cause``) and ``fragments``: list of ``source``, ``timestamp``, ``alignment``
        (a code) and ``payload``. A payload is a list view of bytes, which refers to the memory of the batch. Raises ``ImportError`` without pyarrow.
        """
        from ._arrow import record_batch

        return record_batch(self.columns())
