"""Events and their fragments."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _evb, _memory
from ._errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    import numpy as np
    import numpy.typing as npt


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
    alignment: str = "not checked"
    """Whether the fragment belongs to the event, by its time: ``not checked``, ``agrees``, ``disagrees``, ``not known``, or ``moved`` by a repair."""
    lost_packets: int = 0
    """Number of packets of the fragment that were lost before they reached the source."""

    @property
    def aligned(self) -> bool | None:
        """True if the fragment agrees or was moved here, False if it disagrees, None if nothing is known."""
        return _ALIGNED.get(self.alignment)

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


_ALIGNED = {"agrees": True, "disagrees": False, "moved": True}


@lru_cache(maxsize=256)
def alignment_text(code: int) -> str:
    """Return the state of alignment of that code in words."""
    return _evb.alignment_text(code)


@lru_cache(maxsize=256)
def cause_text(code: int) -> str:
    """Return the cause of that code in words."""
    return _evb.cause_text(code)


class Episode(NamedTuple):
    """What happened to the fragments of a source, and in which events."""

    source: int
    """The source's id."""
    since: int
    """The first event that disagrees."""
    until: int | None
    """The last event, or one soon after it; None if the episode lasts to the end of the run."""
    kind: str
    """What happened, in a word such as ``slip``."""
    shift: int | None
    """Of a slip: the fragment of event n belongs to event n + ``shift``."""
    misaligned: bool
    """True if fragments are in wrong events, or may be."""
    disputed: bool
    """True if it may as well be the contrary of the other sources."""
    text: str
    """What happened, as a sentence without its subject, the source."""


class Change(NamedTuple):
    """An operator excluded a source from the events, or included it again."""

    source: int
    """The source's id."""
    excluded: bool
    """True if the source owes no fragments from that event on; false if it owes them again."""
    from_event: int
    """The first event to which the change applies."""
    utc: datetime | None
    """The time of the request in UTC, to microseconds; None before the begin of the run."""
    why: str
    """The operator's reason."""


class Event:
    """A built event: the fragments of all sources for one trigger."""

    __slots__ = (
        "_absent_causes",
        "_missing_causes",
        "absent",
        "builder",
        "epoch",
        "fragments",
        "id",
        "missing",
        "run",
        "run_id",
        "tag",
        "triggered_ns",
        "utc_ns",
    )

    id: int
    """The event id, which is the number of the trigger, from 1."""
    run: int
    """The run number."""
    run_id: str
    """The identity of the run: 32 hexadecimal digits, empty if it is not known."""
    epoch: int
    """The epoch in which the event was built. If an event was built twice, the higher epoch counts."""
    builder: int
    """The id of the builder that built the event."""
    triggered_ns: int
    """The time of the trigger: nanoseconds on the builder's monotonic clock."""
    utc_ns: int
    """The time of the trigger: nanoseconds since 1970-01-01 UTC, on the run's scale; 0: unknown."""
    tag: int
    """The number that a filter gave the event; 0 if none did."""
    missing: tuple[int, ...]
    """The ids of the sources that owe the event a fragment and did not contribute one."""
    absent: tuple[int, ...]
    """The ids of the sources that are excluded or expendable and did not contribute."""
    fragments: tuple[Fragment, ...]
    """The fragments, normally in the order of the sources' ids."""

    def __init__(
        self,
        head: tuple[int, int, int, int, int, int, str, int],
        missing: tuple[Sequence[int], Iterable[int]],
        absent: tuple[Sequence[int], Iterable[int]],
        fragments: Sequence[Fragment],
    ) -> None:
        self.id, self.run, self.epoch, self.builder, self.triggered_ns, self.utc_ns, self.run_id, self.tag = head
        self.missing, self._missing_causes = tuple(missing[0]), bytes(missing[1])
        self.absent, self._absent_causes = tuple(absent[0]), bytes(absent[1])
        self.fragments = tuple(fragments)

    @property
    def missing_causes(self) -> dict[int, str]:
        """The missing sources with their causes in words: ``{7: "down"}``."""
        return dict(zip(self.missing, map(cause_text, self._missing_causes)))

    @property
    def absent_causes(self) -> dict[int, str]:
        """The absent sources with their causes in words: ``{9: "excluded"}``."""
        return dict(zip(self.absent, map(cause_text, self._absent_causes)))

    @property
    def complete(self) -> bool:
        """True if every source that owes the event a fragment contributed one."""
        return not self.missing

    @property
    def is_complete(self) -> bool:
        """The same as ``complete``."""
        return not self.missing

    @property
    def whole(self) -> bool:
        """True if every source of the run contributed, and no fragment lost packets."""
        return not self.missing and not self.absent and not any(part.lost_packets for part in self.fragments)

    @property
    def aligned(self) -> bool:
        """True if no fragment is known to belong to another event."""
        return all(fragment.aligned is not False for fragment in self.fragments)

    @property
    def utc(self) -> np.datetime64:
        """``utc_ns`` as ``datetime64[ns]``; ``NaT`` if it is not known. Needs NumPy."""
        return _memory.utc(self.utc_ns)

    def fragment(self, source: int) -> Fragment:
        """Return the fragment of a source; raise ``NotFoundError`` if the event has none."""
        for fragment in self.fragments:
            if fragment.source == source:
                return fragment
        there = ", ".join(str(fragment.source) for fragment in self.fragments) or "none"
        why = "it is not a source of the event"
        for what, causes in (("missing", self.missing_causes), ("absent", self.absent_causes)):
            if source in causes:
                why = f"it is {what}: {causes[source]}"
        raise NotFoundError(f"event {self.id} has no fragment of source {source} ({why}); ask only for sources that have one, here: {there}")

    def __repr__(self) -> str:
        missing = f", missing {_named(self.missing_causes)}" if self.missing else ""
        absent = f", absent {_named(self.absent_causes)}" if self.absent else ""
        return f"<Event {self.id} of run {self.run}: {len(self.fragments)} fragments{missing}{absent}>"


def _named(causes: dict[int, str]) -> str:
    return ", ".join(f"{source} ({cause})" for source, cause in causes.items())


def built(event: _evb.Event) -> Event:
    """Return an event whose fragments have memory of their own."""
    fragments = [
        Fragment(source, timestamp, _memory.view(payload), checksum, alignment_text(state), lost)
        for source, timestamp, checksum, state, lost, payload in event.fragments()
    ]
    return Event(event.head(), event.missing(), event.absent(), fragments)
