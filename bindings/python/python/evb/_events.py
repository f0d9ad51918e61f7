"""Events and their fragments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from . import _memory
from ._errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from . import _evb


class Fragment(NamedTuple):
    """The data of one source for one event."""

    source: int
    """The source's id."""
    timestamp: int
    """The time of the fragment, in ticks of the detector's clock."""
    payload: memoryview
    """The bytes, read-only and not copied. They keep the memory of the event's batch alive."""
    checksum: int
    """CRC-64/NVME of the payload, which evb has verified."""

    def view(self, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return the payload as a read-only NumPy array of that type, without a copy.

        The shape is ``(len(payload) / itemsize,)``. ``"<u2"`` means 16-bit little-endian numbers.
        Raises ``ValueError`` if the payload is not a whole number of values, and ``ImportError``
        without NumPy.
        """
        return _memory.array(self.payload, dtype)

    def __repr__(self) -> str:
        size = len(self.payload)
        return f"<Fragment of source {self.source}: {size} bytes, timestamp {self.timestamp}>"


class Event:
    """A built event: the fragments of all sources for one trigger."""

    __slots__ = ("builder", "epoch", "fragments", "id", "missing", "run", "triggered_ns")

    id: int
    """The event id, which is the number of the trigger, from 1."""
    run: int
    """The run number."""
    epoch: int
    """The epoch in which the event was built. If an event was built twice, the higher epoch counts."""
    builder: int
    """The id of the builder that built the event."""
    triggered_ns: int
    """The time of the trigger: nanoseconds on the builder's monotonic clock."""
    missing: tuple[int, ...]
    """The ids of the sources that were expected and did not contribute."""
    fragments: tuple[Fragment, ...]
    """The fragments, normally in the order of the sources' ids."""

    def __init__(
        self,
        head: tuple[int, int, int, int, int, Sequence[int]],
        fragments: Sequence[Fragment],
    ) -> None:
        self.id, self.run, self.epoch, self.builder, self.triggered_ns, missing = head
        self.missing = tuple(missing)
        self.fragments = tuple(fragments)

    @property
    def is_complete(self) -> bool:
        """True if every expected source contributed a fragment."""
        return not self.missing

    def fragment(self, source: int) -> Fragment:
        """Return the fragment of a source; raise ``NotFoundError`` if the event has none."""
        for fragment in self.fragments:
            if fragment.source == source:
                return fragment
        there = ", ".join(str(fragment.source) for fragment in self.fragments) or "none"
        why = "it is missing" if source in self.missing else "it was not expected"
        raise NotFoundError(f"event {self.id} has no fragment of source {source} ({why}); its sources: {there}")

    def __repr__(self) -> str:
        missing = f", missing {', '.join(map(str, self.missing))}" if self.missing else ""
        return f"<Event {self.id} of run {self.run}: {len(self.fragments)} fragments{missing}>"


def built(event: _evb.Event) -> Event:
    """Return an event whose fragments have memory of their own."""
    fragments = [
        Fragment(source, timestamp, _memory.view(payload), checksum)
        for source, timestamp, checksum, payload in event.fragments()
    ]
    return Event(event.head(), fragments)
