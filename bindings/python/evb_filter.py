"""Judges events of the evb event builder: the worker's side of `filter = { kind = "process", ... }`.

    from evb_filter import run

    run(lambda event: event[0].as_numpy().sum() > 3)   # keep events by the bytes of source 0

evb starts this program and gives it events; `run` calls the function for each event, keeps the event if the result is
true or a `Tag`, and returns when evb ends. Payloads are views of the memory that evb shares, without a copy, and are valid until
the function returns. This file needs nothing but Python 3.8 and its standard library, and NumPy for `as_numpy`.
docs/reference/filter.md in evb's repository describes the filter and its protocol.
"""

import array
import mmap
import os
import socket
import struct
import sys
import time

VERSION = 1
_MAGIC = b"EVBF"
_GREETING = struct.Struct("<4sHHQ")
_READY = struct.Struct("<4sHH")
_ANNOUNCED = struct.Struct("<QQII")
_ANSWER = struct.Struct("<QQQ")
_RECORD = struct.Struct("<4sIQQQQQQI4sHHI")
_FRAGMENT = struct.Struct("<HBBIQQ")
_MOST = 1 << 16
_PATIENCE = 0.001


class Fragment:
    """One source's data."""

    __slots__ = ("source", "timestamp", "payload")

    def __init__(self, source, timestamp, payload):
        self.source, self.timestamp, self.payload = source, timestamp, payload

    def as_numpy(self, dtype="uint8"):
        """The payload as an array of NumPy, on the shared memory."""
        import numpy

        return numpy.frombuffer(self.payload, dtype=dtype)

    def __len__(self):
        return len(self.payload)


class Event:
    """One built event; event[7] is the fragment of source 7."""

    __slots__ = ("id", "run", "epoch", "builder", "triggered_ns", "utc_ns", "complete", "_fragments")

    def __init__(self, record):
        (magic, head, _, self.id, self.epoch, self.triggered_ns, self.utc_ns, _, self.run, _, self.builder, flags,
         count) = _RECORD.unpack_from(record)  # fmt: skip
        if magic != b"EVR2":
            raise ValueError("evb gave a record of another format than 2: use the evb_filter.py of that evb")
        self.complete = not flags & 1
        self._fragments, begin = {}, head
        table = record[_RECORD.size : _RECORD.size + _FRAGMENT.size * count]
        for source, _, _, length, timestamp, _ in _FRAGMENT.iter_unpack(table):
            self._fragments[source] = Fragment(source, timestamp, record[begin : begin + length])
            begin += length

    def __getitem__(self, source):
        return self._fragments[source]

    def __contains__(self, source):
        return source in self._fragments

    def __iter__(self):
        return iter(self._fragments.values())

    def __len__(self):
        return len(self._fragments)

    def get(self, source, default=None):
        """The fragment of a source, or the default if the event has none."""
        return self._fragments.get(source, default)


def _greeted(channel):
    """Greets evb, and maps the memory."""
    ids = array.array("i")
    greeting, rights, _, _ = channel.recvmsg(_GREETING.size, socket.CMSG_LEN(ids.itemsize))
    for level, kind, data in rights:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            ids.frombytes(data[: len(data) - len(data) % ids.itemsize])
    if len(greeting) != _GREETING.size or not ids:
        sys.exit("this program is a filter of evb: start it by `filter = { kind = \"process\", ... }` of a builder")
    magic, version, _, size = _GREETING.unpack(greeting)
    if magic != _MAGIC or version != VERSION:
        sys.exit("evb speaks version %d of the protocol of filters: use the evb_filter.py of that evb" % version)
    memory = mmap.mmap(ids[0], size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
    os.close(ids[0])
    channel.send(_READY.pack(_MAGIC, VERSION, 0))
    return memory


class Tag(int):
    """A result of judge that keeps the event, with this number from 0 to 2**64 - 1 as its tag in the file."""

    def __bool__(self):
        return True


def run(judge):
    """Calls judge(event) for each event until evb ends, and keeps the events for which the result is true."""
    try:
        channel = socket.socket(fileno=0)
    except OSError:
        sys.exit("this program is a filter of evb: start it by `filter = { kind = \"process\", ... }` of a builder")
    memory = memoryview(_greeted(channel))
    while True:
        message = channel.recv(_MOST)
        if not message:
            return
        answers, since = [], time.monotonic()
        for event, offset, length, kind in _ANNOUNCED.iter_unpack(message):
            if kind != 1:
                continue
            kept = judge(Event(memory[offset : offset + length]))
            answers.append(_ANSWER.pack(event, bool(kept), kept if isinstance(kept, Tag) else 0))
            # Answers wait for others, but not for events that take long.
            if time.monotonic() - since > _PATIENCE or len(answers) == 64:
                channel.send(b"".join(answers))
                answers, since = [], time.monotonic()
        if answers:
            channel.send(b"".join(answers))
