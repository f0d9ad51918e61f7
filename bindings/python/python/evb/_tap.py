"""Events of a run that goes on, from the taps of its builders."""

from __future__ import annotations

import http.client
import json
import os
import queue
import struct
import threading
import time
import urllib.parse
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from . import _evb
from ._batch import Batch
from ._control import Control, StrPath
from ._errors import ControlError, DamageWarning

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Protocol

    from ._events import Event

    class Readable(Protocol):
        def read(self, size: int, /) -> bytes: ...

_EVENTS = 4096
"""Default number of events of a batch."""
_WAITING = 64
"""Number of records that wait for the program; further ones wait at the tap."""
_CLOSING = b"EVX2"
"""Beginning of the block with which a whole stream ends."""
_LONGEST = 1 << 30
"""Limit of the length of a header or record, in bytes."""

HEADER = struct.Struct("<12xI")
RECORD = struct.Struct("<8xQ")


class Tap:
    """Events of a run that goes on, from one or several taps.

    ``for event in tap`` yields them as they come, and ends with the run. A program that is slow
    misses events, which ``counts()`` counts; the run does not wait for it.
    """

    def __init__(self, addresses: Sequence[str], path: str, key: str | None, timeout: float) -> None:
        self._key, self._timeout = key, timeout
        self._shown: queue.Queue[tuple[_Stream, bytes | Exception | None]] = queue.Queue(_WAITING)
        self._streams = [_Stream(address, path, key, timeout) for address in addresses]
        self._open = set(self._streams)
        for stream in self._streams:
            threading.Thread(target=stream.pass_on, args=(self._shown,), name="evb tap", daemon=True).start()

    @property
    def addresses(self) -> list[str]:
        """The addresses of the taps, as ``host:port``."""
        return [stream.address for stream in self._streams]

    def __iter__(self) -> Iterator[Event]:
        """Iterate over the events in the order in which they come."""
        for batch in self.batches(256, seconds=0):
            yield from batch

    def batches(self, events: int = _EVENTS, *, seconds: float = 1.0) -> Iterator[Batch]:
        """Iterate over batches of one builder's events.

        A batch comes when there are ``events`` events, or ``seconds`` after its first one.
        """
        while self._open:
            waiting: dict[_Stream, list[bytes]] = {}
            for stream, record in self._records(events, seconds):
                waiting.setdefault(stream, []).append(record)
            for stream, records in waiting.items():
                yield from stream.batches(records)

    def _records(self, events: int, seconds: float) -> Iterator[tuple[_Stream, bytes]]:
        """Wait for the first record, and for more up to a number and a time."""
        until = None
        for _ in range(events):
            try:
                wait = None if until is None else max(0.0, until - time.monotonic())
                stream, shown = self._shown.get(block=wait != 0, timeout=wait)
            except queue.Empty:
                return
            if isinstance(shown, Exception):
                raise shown
            if shown is not None:
                until = until or time.monotonic() + seconds
                yield stream, shown
                continue
            self._open.discard(stream)
            if not self._open:
                return

    def counts(self) -> dict[str, dict[str, int]]:
        """Return for each tap what became of the events: ``seen``, ``sent``, ``sampled_out``, ``dropped``.

        ``waiting`` events have been seen, and are not sent yet. A tap that has forgotten this program,
        after 64 others have left, is left out.
        """
        keys = ("seen", "sent", "sampled_out", "dropped", "waiting")
        found = {}
        for stream in self._streams:
            clients = json.loads(_ask(stream.address, "/v1/counts", self._key, self._timeout)[0].read())["clients"]
            for own in (client for client in clients if client["id"] == stream.client):
                found[stream.address] = {key: int(own[key]) for key in keys}
        return found

    def close(self) -> None:
        """Leave the taps."""
        for stream in self._streams:
            stream.close()
        self._open.clear()
        while not self._shown.empty():
            self._shown.get()

    def __enter__(self) -> Tap:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class _OfRunControl(ControlError):
    """Run control refused a request that was meant for a tap."""


class Records:
    """The records of a stream, and the events in them."""

    _header = b""
    is_whole = False
    """True after the end of a stream of which nothing is missing."""

    def __init__(self, address: str, source: Readable, sock: socket.socket) -> None:
        self.address = address
        self._source, self._socket = source, sock
        # The next event may be long in coming.
        sock.settimeout(None)
        self._is_closed = False

    def _part(self, prefix: struct.Struct) -> bytes | None:
        """Read a header or a record, whose prefix has its length; None at the end."""
        begin = self._source.read(prefix.size)
        if not begin or begin.startswith(_CLOSING):
            self.is_whole = begin.startswith(_CLOSING)
            return None
        if len(begin) < prefix.size:
            raise ValueError("its stream ends within an event")
        (length,) = prefix.unpack(begin)
        if not prefix.size <= length <= _LONGEST:
            raise ValueError(f"it announced a record of {length} bytes, but one has {prefix.size} to {_LONGEST}")
        rest = self._source.read(length - prefix.size)
        if len(rest) < length - prefix.size:
            raise ValueError("its stream ends within an event")
        return begin + rest

    def batches(self, records: list[bytes]) -> Iterator[Batch]:
        """Return records as batches: they are those of a file that has them."""
        file = os.memfd_create("evb", os.MFD_CLOEXEC)
        try:
            with open(file, "wb", closefd=False) as out:
                out.writelines([self._header, *records])
            native = _evb.EventFile(f"/proc/self/fd/{file}", None, False)
        finally:
            # The native part has opened the file once more.
            os.close(file)
        reader = native.batches(len(records))
        while (found := reader.next()) is not None:
            for finding in found.findings():
                warnings.warn(f"{self.address}: {finding.text}", DamageWarning, stacklevel=3)
            if len(found):
                yield Batch(found, None)

    def close(self) -> None:
        self._is_closed = True
        try:
            self._socket.shutdown(2)
        except OSError:
            pass


class _Stream(Records):
    """The events of one tap."""

    def __init__(self, address: str, path: str, key: str | None, timeout: float) -> None:
        answer, sock = _ask(address, path, key, timeout)
        super().__init__(address, answer, sock)
        self.client = int(answer.headers["evb-tap-client"])

    def pass_on(self, to: queue.Queue[tuple[_Stream, bytes | Exception | None]]) -> None:
        """Pass on the records of the stream, then None, or the reason for which it was cut off."""
        end: Exception | None = None
        try:
            self._header = self._part(HEADER) or b""
            while self._header and (record := self._part(RECORD)):
                to.put((self, record))
        except (OSError, ValueError, http.client.HTTPException) as error:
            if not self._is_closed:
                end = ControlError(f"the tap at {self.address} was cut off: {error}, and the run itself loses nothing by that; check that the evbd of this tap still runs, and ask again")
        to.put((self, end))


def _ask(address: str, path: str, key: str | None, timeout: float) -> tuple[http.client.HTTPResponse, socket.socket]:
    """Return the answer to a request, and its socket; raise ``ControlError`` if it is refused."""
    connection = http.client.HTTPConnection(address, timeout=timeout)
    try:
        connection.connect()
        sock = connection.sock
        connection.request("GET", path, headers={"Authorization": f"Bearer {key}"} if key else {})
        answer = connection.getresponse()
        if answer.status == 200:
            return answer, sock
        text = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise ControlError(f"no tap at {address}: {error}; start evbd there with `tap` in its [[builder]]") from None
    try:
        refusal = json.loads(text)
        said = f"{refusal['refused_by']} at {address} answers {answer.status}: {refusal['reason']}; {refusal['remedy']}"
    except (ValueError, KeyError, TypeError):
        said = f"{address} answers {answer.status}, and is no tap: give the address of a tap or of run control"
        refusal = {}
    raise (_OfRunControl if refusal.get("refused_by") == "the control interface" else ControlError)(said)


def _taps(url: str, key: str | None, token_file: StrPath | None, timeout: float) -> list[str]:
    """Return the taps at an address: it is a tap, or run control knows them."""
    address = urllib.parse.urlsplit(url if "//" in url else f"//{url}").netloc
    try:
        _ask(address, "/v1/counts", key, timeout)[0].close()
        return [address]
    except _OfRunControl:
        pass
    control = Control(f"http://{address}", token_file=token_file, timeout=timeout)
    while True:
        builders = [one for one in (control.status().get("survey") or {}).get("builders", []) if one["listen"]]
        taps = [str(one["tap"]) for one in builders if one.get("tap")]
        if taps:
            return taps
        if builders:
            raise ControlError(f"run control at {address} knows builders, and none of them has a tap; add for example tap = {{ listen = \"127.0.0.1:7301\" }} to each [[builder]] for the next run")
        time.sleep(1)


def tap(
    urls: str | Sequence[str],
    sample: float | None = None,
    newest: bool = False,
    key_file: StrPath | None = None,
    *,
    token_file: StrPath | None = None,
    timeout: float = 30.0,
) -> Tap:
    """Look at events while a run goes on, without delaying it.

    ``urls`` are addresses of taps, or of run control, which knows the taps of all builders.
    ``sample`` is the share of the events, by default as many as the tap allows; with ``newest``,
    only the newest event comes whenever the program takes the next one. ``key_file`` has the key of
    the taps, and ``token_file`` the token of run control, if these ask for them.

    Waits for a run that has begun. Raises ``ControlError`` if there is no tap, or it refuses.
    """
    key = None if key_file is None else Path(os.fsdecode(key_file)).read_text(encoding="utf-8").strip()
    found = [one for url in ([urls] if isinstance(urls, str) else urls) for one in _taps(url, key, token_file, timeout)]
    query = {"newest": int(newest), **({} if sample is None else {"sample": sample})}
    return Tap(found, f"/v1/events?{urllib.parse.urlencode(query)}", key, timeout)
