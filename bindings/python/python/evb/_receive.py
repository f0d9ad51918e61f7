"""Events that builders hand over, each of which the program acknowledges."""

from __future__ import annotations

import os
import queue
import socket
import struct
import threading
from typing import TYPE_CHECKING

from ._errors import Error
from ._tap import HEADER, RECORD, Records

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Optional

    from ._events import Event

    _Queue = queue.Queue[tuple[Optional["_Connection"], Optional[bytes]]]

_WAITING = 64
"""Number of records that wait for the program; further ones wait at their builders."""

_NUMBER = struct.Struct("<Q")


class Consumer:
    """Takes the events of builders whose sink is a socket, and acknowledges them.

    ``for event in consumer`` acknowledges an event when the program asks for the next one, so that
    an event counts as taken only when the program is done with it. ``events()`` leaves this to
    ``done(event)``. A builder repeats events that were not acknowledged, so a program that starts
    again may get an event twice: with the same ``run_id`` and ``id``, and the same content.
    """

    def __init__(self, address: str, builders: int | None = None) -> None:
        self._left = builders
        self._arrived: _Queue = queue.Queue(_WAITING)
        self._taken: dict[tuple[str, int], _Connection] = {}
        self._connections: set[_Connection] = set()
        self._socket, self.address = _listen(address)
        threading.Thread(target=self._accept, name="evb consumer", daemon=True).start()

    def __iter__(self) -> Iterator[Event]:
        """Iterate over the events; each is acknowledged when the next one is asked for."""
        for event in self.events():
            yield event
            self.done(event)

    def events(self) -> Iterator[Event]:
        """Iterate over the events, which ``done`` acknowledges, in any order.

        The iteration ends when as many builders as were expected have ended their run.
        """
        while self._left is None or self._left > 0:
            records: dict[_Connection, list[bytes]] = {}
            ended: list[_Connection] = []
            while not (records or ended) or not self._arrived.empty():
                connection, record = self._arrived.get()
                if connection is None:
                    return
                if record is None:
                    ended.append(connection)
                else:
                    records.setdefault(connection, []).append(record)
                if sum(map(len, records.values())) >= _WAITING:
                    break
            for connection, arrived in records.items():
                for event in (event for batch in connection.batches(arrived) for event in batch):
                    self._taken[event.run_id, event.id] = connection
                    yield event
            for connection in ended:
                self._connections.discard(connection)
                if connection.is_whole and self._left is not None:
                    self._left -= 1

    def done(self, event: Event) -> None:
        """Acknowledge an event: its builder forgets it."""
        connection = self._taken.pop((event.run_id, event.id), None)
        if connection is not None:
            connection.acknowledge(event.id)

    def close(self) -> None:
        """Stop taking events. Builders keep those that were not acknowledged."""
        for connection in [*self._connections]:
            connection.close()
        try:
            self._socket.shutdown(2)
        except OSError:
            pass
        self._socket.close()
        self._left = 0
        self._taken.clear()
        try:
            self._arrived.put_nowait((None, None))
        except queue.Full:
            # The queue is full, so no caller waits for an event.
            pass

    def _accept(self) -> None:
        while True:
            try:
                connection = _Connection(self._socket.accept()[0])
            except OSError:
                return
            self._connections.add(connection)
            threading.Thread(target=connection.pass_on, args=(self._arrived,), name="evb consumer", daemon=True).start()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class _Connection(Records):
    """The events of one builder."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__("a builder", sock.makefile("rb"), sock)

    def pass_on(self, to: _Queue) -> None:
        """Pass on the records of the stream, then None."""
        try:
            self._header = self._part(HEADER) or b""
            while self._header and (record := self._part(RECORD)):
                to.put((self, record))
        except (OSError, ValueError):
            # The builder connects again, and repeats what was not acknowledged.
            pass
        self.close()
        to.put((self, None))

    def acknowledge(self, event: int) -> None:
        try:
            self._socket.sendall(_NUMBER.pack(event))
        except OSError:
            # The builder repeats the event, as the connection is lost.
            pass


def _listen(address: str) -> tuple[socket.socket, str]:
    """Return a socket that listens, and its address."""
    try:
        if "/" in address:
            listener = socket.socket(socket.AF_UNIX)
            if os.path.exists(address):
                # A consumer that was killed has left it.
                if listener.connect_ex(address) == 0:
                    raise OSError("another program listens there")
                os.unlink(address)
                listener = socket.socket(socket.AF_UNIX)
            listener.bind(address)
            listener.listen()
            return listener, address
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, int(port)), family=family)
        return listener, f"{host}:{listener.getsockname()[1]}"
    except (OSError, ValueError) as error:
        raise Error(f"cannot listen at {address}: {error}; give a free host:port of this host, or the path of a new Unix socket") from None


def receive(address: str, builders: int | None = 1) -> Consumer:
    """Take the events of builders whose sink is ``{ kind = "socket", address = … }``.

    ``address`` is that of the sink: ``host:port``, or the path of a Unix socket. The events are
    lossless: a builder waits for a program that is slow, away or killed. The iteration ends when
    that many ``builders`` have ended their run; with None, it goes on run after run.
    """
    return Consumer(address, builders)
