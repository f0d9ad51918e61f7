"""Sources, builders and whole systems in this process."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Union

from . import _evb
from ._events import Event, built

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from typing_extensions import Buffer, Self

StrPath = Union[str, "os.PathLike[str]"]
Sink = Union[Callable[[Event], object], StrPath, None]
"""The destination of built events: a callable, a directory for event files, or None to iterate."""


class Outcome(NamedTuple):
    """The end of a run, as one role knows it."""

    run: int
    """The run number."""
    epoch: int
    """The epoch of the run."""
    exit_code: int
    """0 if every event is complete and accounted for, else 1."""
    verdict: str
    """The outcome as a sentence."""


class Clock(NamedTuple):
    """The clock that boards read for the timestamps of fragments, such as ``Clock("125 MHz", 48)``."""

    rate: str
    """The nominal rate of the ticks."""
    bits: int | None = None
    """The number of bits of the timestamps, 1 to 64."""
    wrap: int | None = None
    """Instead of ``bits``, the number of ticks after which the clock reads zero again."""
    tolerance: float = 1e-6
    """The largest deviation of a healthy timestamp from the time of its event, in seconds."""
    accuracy_ppm: float = 100.0
    """The largest deviation of the rate, in parts per million; 0 for boards on one common clock."""


def _bytes(payload: Buffer) -> bytes:
    """Return a payload as bytes. Bytes cannot change, so they are not copied; all else is."""
    if type(payload) is bytes:
        return payload
    memory = memoryview(payload)
    # PEP 3118: objects, pointers and functions. The names of fields stand between colons.
    if set(re.sub(":[^:]*:", "", memory.format)) & set("OP&X"):
        raise TypeError("the payload holds Python objects or pointers, which are addresses of this process and mean nothing elsewhere; give bytes, or an array of numbers")
    return memory.tobytes()


def _split(sink: Sink) -> tuple[str | None, Callable[[_evb.Event], object] | None]:
    """Return the directory and the callable of a sink."""
    if sink is None:
        return None, None
    if callable(sink):
        function = sink
        return None, lambda event: function(built(event))
    return os.fspath(sink), None


class _Role:
    """What sources and builders have in common: they take part in a run until it is over."""

    _native: _evb.Source | _evb.Builder

    def request_run_end(self, cause: str) -> None:
        """Ask the supervisor to end the run; events under way are built."""
        self._native.request_run_end(cause)

    def finished(self) -> Outcome:
        """Wait until the run is over and a builder's sink has all events; return the outcome."""
        return Outcome(*self._native.finished())

    def abort(self) -> None:
        """End the role at once.

        Events that lack a source's fragments become incomplete; the events of a builder are built
        by the other builders.
        """
        self._native.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.abort()
            return
        try:
            self.finished()
        except BaseException:
            # Such as Ctrl-C: this program no longer waits for the role.
            self.abort()
            raise


class Source(_Role):
    """A source of a run: takes fragments from this program and sends them to the builders.

    As a context manager, it waits at the end of the block until the run is over, because fragments
    that are not delivered die with the process; after an exception, also in this wait, it aborts.
    All methods may be called from several threads. Calls that wait let other threads run, and
    Ctrl-C ends them.
    """

    _native: _evb.Source

    def __init__(
        self,
        address: str,
        id: int,
        *,
        key_file: StrPath | None = None,
        max_fragment: int | None = None,
        backlog: int | None = None,
        start_timeout: float = 30.0,
        clock: Clock | None = None,
    ) -> None:
        """Register at the supervisor.

        ``address`` is the supervisor's ``host:port`` and ``id`` the source's id in its
        configuration. ``key_file`` is the file that ``evbd keygen`` wrote; without it, the
        supervisor must be on this host. ``max_fragment`` (4 MiB) is the largest payload and
        ``backlog`` (256 MiB) the sum of payloads that may wait for their events, in bytes.
        ``start_timeout`` is the time to reach the supervisor, in seconds. ``clock`` is what the
        timestamps are readings of, by which evb finds events whose fragments do not belong
        together; without it, evb does not compare them.
        """
        key = None if key_file is None else os.fspath(key_file)
        self._native = _evb.Source(address, id, key, max_fragment, backlog, start_timeout, clock)

    @classmethod
    def _of(cls, native: _evb.Source) -> Self:
        source = cls.__new__(cls)
        source._native = native
        return source

    @property
    def first_event(self) -> int:
        """The first event that this source has a part in; 1 in a new run."""
        return self._native.first_event

    def push(self, event: int, payload: Buffer, timestamp: int = 0) -> None:
        """Push the fragment of an event; wait while the backlog is full.

        ``payload`` is ``bytes``, which are not copied, or any object with a buffer, such as a NumPy
        array, which is copied. ``timestamp`` is in ticks of the detector's clock. Raises
        ``EndedError`` when the run is over, and ``PushError`` if the fragment is refused.
        """
        self._native.push(event, _bytes(payload), timestamp)

    def push_many(self, fragments: Iterable[tuple[int, Buffer, int]]) -> None:
        """Push fragments, given as ``(event, payload, timestamp)``, in their order.

        This takes less time for each fragment than ``push``. If the call raises, the attribute
        ``pushed`` of the exception is the number of fragments that were pushed.
        """
        ready = [(event, _bytes(payload), timestamp) for event, payload, timestamp in fragments]
        pushed, error = self._native.push_many(ready)
        if error is not None:
            error.pushed = pushed  # type: ignore[attr-defined]
            raise error


class Builder(_Role):
    """A builder of a run: builds events and gives them to a sink.

    Without a sink, ``for event in builder`` yields the events until the run is over. An event then
    counts as accepted as soon as it waits for the iterator, where up to 64 events have room. As a
    context manager, it works as ``Source`` does.
    """

    _native: _evb.Builder

    def __init__(
        self,
        address: str,
        id: int,
        sink: Sink = None,
        *,
        listen: str = "127.0.0.1:0",
        key_file: StrPath | None = None,
        start_timeout: float = 30.0,
    ) -> None:
        """Listen for sources, and register at the supervisor.

        ``sink`` is a callable, which gets each event on a thread of the builder, a directory for
        event files, or None for the iterator. An event for which the callable raises is lost and
        named in the ledger, and ``finished`` raises the first such exception. ``listen`` is the
        ``host:port`` at which sources reach this builder. The other arguments are those of
        ``Source``.
        """
        files, function = _split(sink)
        key = None if key_file is None else os.fspath(key_file)
        self._native = _evb.Builder(address, id, listen, files, function, key, start_timeout)

    @property
    def address(self) -> str:
        """The address at which the builder listens for sources."""
        return self._native.address

    def __iter__(self) -> Iterator[Event]:
        """Iterate over the built events, until the run is over."""
        while (event := self._native.next()) is not None:
            yield built(event)


class LocalSystem:
    """A whole event builder in this process: a supervisor, sources and builders over loopback.

    It is made for notebooks, tests, and readout on a single computer. As a context manager, it
    aborts the run at the end of the block if the run is not over.
    """

    def __init__(
        self,
        sources: int = 1,
        builders: int = 1,
        sink: Sink = None,
        *,
        run: int = 1,
        events: int | None = None,
        trigger: str = "as-fast-as-possible",
        rate: str | None = None,
        max_fragment: int | None = None,
    ) -> None:
        """Start a run with the sources 1 to ``sources`` and the builders 1 to ``builders``.

        ``sink`` is the same as for ``Builder``; all builders share it. The run ends after
        ``events`` triggers, if given, or by ``request_run_end``. ``trigger`` is
        ``as-fast-as-possible``, ``external`` (by the method ``trigger``), ``periodic`` or
        ``poisson``, the last two with a ``rate`` such as ``"2 kHz"``. ``max_fragment`` (4 MiB) is
        the largest payload in bytes; if it is given, builders work on as many events of that size
        at once as keeps them busy.
        """
        files, function = _split(sink)
        self._native = _evb.LocalRun(
            sources, builders, run, events, trigger, rate, max_fragment, files, function
        )
        self.sources = [Source._of(source) for source in self._native.sources]
        """The sources; ``sources[0]`` has the id 1."""

    def trigger(self, count: int = 1) -> None:
        """Give triggers to a run whose trigger is ``external``."""
        self._native.trigger(count)

    def __iter__(self) -> Iterator[Event]:
        """Iterate over the events that the builders build, until the run is over."""
        while (event := self._native.next()) is not None:
            yield built(event)

    def request_run_end(self, cause: str = "the program has asked for it") -> None:
        """End the run: it takes no more triggers, and events under way are built."""
        self._native.request_run_end(cause)

    def finished(self) -> dict[str, Any]:
        """Wait until the run is over, and return its ledger, with the keys of ``evbd --summary``."""
        report: dict[str, Any] = json.loads(self._native.finished())
        return report

    def abort(self) -> None:
        """End all roles at once."""
        self._native.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()
