#!/usr/bin/env python3
"""Reads event files (*.evb) of the evb event builder with nothing but Python 3.8 and its standard library.

As a module:

    import evb_read
    with evb_read.EventFile("run000001_b01_0000.evb") as file:
        print(file.header.run, file.header.sources)
        for event in file:                       # in the order in which they were written
            for fragment in event.fragments:
                print(event.id, fragment.source, fragment.timestamp, len(fragment.payload))
        event = file.event(12)                   # by event id, None if it is not there

As a command:

    python3 evb_read.py FILE                     # read everything, check every checksum; exit 1 if not clean
    python3 evb_read.py FILE --list              # a line for each event (payloads are not read)
    python3 evb_read.py FILE --event 12 [--hex]  # one event, with its bytes

Damage raises Damaged while iterating with `for event in file`; `file.scan()` gives damage as items and goes on after
it. docs/reference/file-format.md describes the format; the FILE-n in comments are its requirements.
"""

import argparse
import os
import struct
import sys
from collections import namedtuple

FILE_MAGIC = b"\x89EVB\r\n\x1a\n"
RECORD_MAGIC = b"EVBR"
INDEX_MAGIC = b"EVBI"
TRAILER_MAGIC = b"EVB-END\n"
VERSION = 1
MAX_HEADER = 56 + 2 * 65536 + 1024 + 8
MAX_RECORD = 1 << 40
MAX_RECORDS = 1 << 20

# Little-endian, without padding between fields.
_FILE_PREFIX = struct.Struct("<8sHHIIHHQIIQII")
_RECORD_PREFIX = struct.Struct("<4sIQQQQIHHII")
_FRAGMENT = struct.Struct("<HHIQQ")
_INDEX_HEAD = struct.Struct("<4sIQ")
_INDEX_ENTRY = struct.Struct("<QQQ")
_TRAILER = struct.Struct("<QQ8s")

Header = namedtuple("Header", "run epoch builder sequence created_unix_ns sources creator")
Header.__doc__ = "Whose data a file holds; builder is None in a merged file."
Fragment = namedtuple("Fragment", "source timestamp length crc payload")
Fragment.__doc__ = "One source's data; payload is None if only the head was read."
Event = namedtuple("Event", "id run epoch builder triggered_ns missing fragments offset length")
Event.__doc__ = "One built event; missing names the sources that were expected and did not contribute."
IndexEntry = namedtuple("IndexEntry", "event epoch offset")


class NotAnEventFile(Exception):
    """The front of the file cannot be used."""


class Damaged(Exception):
    """A part of the file is not what was written."""

    def __init__(self, offset, length, what, event=None, torn=False):
        super().__init__("at byte %d: %s" % (offset, what))
        self.offset = offset
        self.length = length
        self.event = event
        self.torn = torn
        """Whether this is the torn tail of a file whose writer was killed."""


def _crc_tables():
    polynomial = 0x9A6C9329AC4BC9B5  # 0xad93d23594c93659, bits reversed
    first = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (polynomial if byte & 1 else 0)
        first.append(byte)
    tables = [first]
    for _ in range(7):
        tables.append([first[value & 255] ^ value >> 8 for value in tables[-1]])
    return tables


_T0, _T1, _T2, _T3, _T4, _T5, _T6, _T7 = _crc_tables()
_WORDS = struct.Struct("<Q")


def crc64(data, crc=0):
    """CRC-64/NVME of data, eight bytes at a time; crc is that of the bytes before it."""
    crc ^= 0xFFFFFFFFFFFFFFFF
    whole = len(data) & ~7
    for (word,) in _WORDS.iter_unpack(data[:whole]):
        crc ^= word
        crc = (
            _T7[crc & 255]
            ^ _T6[crc >> 8 & 255]
            ^ _T5[crc >> 16 & 255]
            ^ _T4[crc >> 24 & 255]
            ^ _T3[crc >> 32 & 255]
            ^ _T2[crc >> 40 & 255]
            ^ _T1[crc >> 48 & 255]
            ^ _T0[crc >> 56]
        )
    for byte in data[whole:]:
        crc = _T0[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFFFFFFFFFF


def _aligned(size):
    return (size + 7) & ~7


class EventFile:
    """An open event file. check_payloads=False leaves out the payload checksums, which take most of the time."""

    def __init__(self, path, check_payloads=True):
        self.path = os.fspath(path)
        self.check_payloads = check_payloads
        self._file = open(self.path, "rb")
        try:
            self.size = os.fstat(self._file.fileno()).st_size
            self._read_header()
            self._find_index()
        except BaseException:
            self._file.close()
            raise
        self._scanned = None

    def close(self):
        self._file.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _read(self, offset, count):
        self._file.seek(offset)
        return self._file.read(count)

    def _read_header(self):
        prefix = self._read(0, _FILE_PREFIX.size)
        if prefix[:8] != FILE_MAGIC[: len(prefix)]:
            raise NotAnEventFile("%s: not an event file" % self.path)
        if len(prefix) < _FILE_PREFIX.size:
            raise NotAnEventFile("%s: ends inside its header, so it holds no event" % self.path)
        (_, version, flags, length, run, builder, _, epoch, sequence, sources, created, creator, _) = (
            _FILE_PREFIX.unpack(prefix)
        )
        if version != VERSION:
            raise NotAnEventFile("%s: format version %d, this reads %d" % (self.path, version, VERSION))
        if not _FILE_PREFIX.size + 8 <= length <= MAX_HEADER:
            raise NotAnEventFile("%s: its header is damaged" % self.path)
        data = self._read(0, length)
        if len(data) < length:
            raise NotAnEventFile("%s: ends inside its header, so it holds no event" % self.path)
        self._tag = int.from_bytes(data[-8:], "little")
        if crc64(data[:-8]) != self._tag:
            raise NotAnEventFile("%s: its header is damaged (checksum)" % self.path)
        names = 56 + 2 * sources
        if flags & ~1 or _aligned(names + creator) + 8 != length:
            raise NotAnEventFile("%s: its header contradicts itself" % self.path)
        ids = struct.unpack_from("<%dH" % sources, data, 56)
        text = data[names : names + creator].decode("utf-8", "replace")
        self.header = Header(run, epoch, None if flags & 1 else builder, sequence, created, ids, text)
        self.first_record = length

    def _find_index(self):
        """Sets index_state to 'present', 'absent' or 'damaged', and where records end at the latest (FILE-40 ff.)."""
        self.index_state, self._index_at, self._records = "absent", None, 0
        self._end = self.size
        if self.size < self.first_record + _INDEX_HEAD.size + _TRAILER.size:
            return
        offset, sealed, magic = _TRAILER.unpack(self._read(self.size - _TRAILER.size, _TRAILER.size))
        entries = self.size - offset - _INDEX_HEAD.size - _TRAILER.size
        records, rest = divmod(entries, _INDEX_ENTRY.size)
        if magic != TRAILER_MAGIC or entries < 0 or rest or records > MAX_RECORDS or offset < self.first_record:
            return
        self._index_at, self._records = offset, records
        content = self._read(offset, self.size - 16 - offset)
        head = _INDEX_HEAD.pack(INDEX_MAGIC, _INDEX_ENTRY.size, records)
        if content.startswith(head) and crc64(content) ^ self._tag == sealed:
            self.index_state, self._end = "present", offset
        else:
            self.index_state = "damaged"

    def _head(self, offset):
        """The event at offset without its payloads; Damaged where there is none."""
        available = self._end - offset
        prefix = self._read(offset, min(_RECORD_PREFIX.size, available))
        if prefix[:4] != RECORD_MAGIC[: len(prefix)]:
            raise Damaged(offset, 0, "no record begins here")
        if len(prefix) < _RECORD_PREFIX.size:
            raise Damaged(offset, 0, "the record is longer than the rest of the file")
        (_, head, length, event, epoch, triggered, run, builder, flags, fragments, missing) = (
            _RECORD_PREFIX.unpack(prefix)
        )
        # Nothing is read by a length that contradicts the others (FILE-31).
        tables = _RECORD_PREFIX.size + _FRAGMENT.size * fragments
        if max(fragments, missing) > 65536 or head != tables + _aligned(2 * missing) + 8:
            raise Damaged(offset, 0, "the lengths in the record's head contradict each other")
        if length < head or length % 8 or length > MAX_RECORD:
            raise Damaged(offset, 0, "the lengths in the record's head contradict each other")
        if length > available:
            raise Damaged(offset, 0, "the record is longer than the rest of the file")
        data = self._read(offset, head)
        if len(data) < head or crc64(data[:-8]) ^ self._tag != int.from_bytes(data[-8:], "little"):
            raise Damaged(offset, 0, "the checksum of the record's head is wrong")
        parts = []
        for source, _, size, timestamp, crc in _FRAGMENT.iter_unpack(data[_RECORD_PREFIX.size : tables]):
            parts.append(Fragment(source, timestamp, size, crc, None))
        if head + _aligned(sum(part.length for part in parts)) != length:
            raise Damaged(offset, 0, "the lengths in the record's head contradict each other")
        absent = struct.unpack_from("<%dH" % missing, data, tables)
        if flags != (1 if missing else 0):
            raise Damaged(offset, 0, "a flag contradicts the rest")
        return Event(event, run, epoch, builder, triggered, absent, tuple(parts), offset, length)

    def _payloads(self, event):
        """The event with its payloads, checked."""
        start = 64 + _FRAGMENT.size * len(event.fragments) + _aligned(2 * len(event.missing))
        data = self._read(event.offset + start, event.length - start)
        if len(data) < event.length - start:
            raise Damaged(event.offset, event.length, "the file has become shorter", event.id)
        at, parts = 0, []
        for part in event.fragments:
            payload = data[at : at + part.length]
            if self.check_payloads and crc64(payload) != part.crc:
                what = "event %d: the checksum of the payload of source %d is wrong" % (event.id, part.source)
                raise Damaged(event.offset, event.length, what, event.id)
            parts.append(part._replace(payload=payload))
            at += part.length
        if any(data[at:]):
            raise Damaged(event.offset, event.length, "event %d: the record's padding is not zero" % event.id, event.id)
        return event._replace(fragments=tuple(parts))

    def _resume(self, start):
        """Where from start on the next intact record head, or an index, begins (FILE-33)."""
        piece = 1 << 20
        for base in range(start, self._end, piece):
            data = self._read(base, min(piece + 3, self._end - base))
            at = -1
            while True:
                at = data.find(b"EVB", at + 1)
                if at < 0 or at >= piece:
                    break
                if at % 8 == 0 and data[at : at + 4] in (RECORD_MAGIC, INDEX_MAGIC):
                    if self._begins_index(base + at):
                        return base + at
                    try:
                        self._head(base + at)
                        return base + at
                    except Damaged:
                        pass
        return None

    def _begins_index(self, offset):
        head = self._read(offset, _INDEX_HEAD.size)
        records, rest = divmod(self.size - offset - _INDEX_HEAD.size - _TRAILER.size, _INDEX_ENTRY.size)
        return records >= 0 and not rest and head == _INDEX_HEAD.pack(INDEX_MAGIC, _INDEX_ENTRY.size, records)

    def _index_here(self, offset, entries):
        """Whether an index begins at offset, where no record does: 'no', 'ends' or 'wrong'; entries are those of the
        records before it, None if some of these are not known (FILE-35)."""
        if self.index_state == "present":
            return "no"
        if self.index_state == "damaged" and (offset == self._index_at or self._begins_index(offset)):
            return "ends"
        head = self._read(offset, _INDEX_HEAD.size)
        if head[:4] != INDEX_MAGIC:
            return "no"
        torn = self.index_state == "absent"
        if entries is None:
            torn = torn and self._may_begin_torn_index(head, self.size - offset)
        else:
            torn = torn and self._is_torn_index(offset, entries)
        return "ends" if torn else "wrong"

    def _may_begin_torn_index(self, head, left):
        entry = struct.pack("<I", _INDEX_ENTRY.size)
        if len(head) >= 8 and head[4:8] != entry:
            return False
        if len(head) < _INDEX_HEAD.size:
            return True
        records = _INDEX_HEAD.unpack(head)[2]
        return records <= MAX_RECORDS and left <= self._index_size(records)

    def _is_torn_index(self, offset, entries):
        if len(entries) > MAX_RECORDS or self.size - offset > self._index_size(len(entries)):
            return False
        index = bytearray(_INDEX_HEAD.pack(INDEX_MAGIC, _INDEX_ENTRY.size, len(entries)))
        for entry in sorted(entries):
            index += _INDEX_ENTRY.pack(*entry)
        index += struct.pack("<Q", offset)
        index += struct.pack("<Q", crc64(bytes(index)) ^ self._tag) + TRAILER_MAGIC
        found = self._read(offset, self.size - offset)
        same = next((at for at in range(len(found)) if found[at] != index[at]), len(found))
        return same == len(found) or same >= _INDEX_HEAD.size and not any(found[same:])

    @staticmethod
    def _index_size(records):
        return _INDEX_HEAD.size + _INDEX_ENTRY.size * records + _TRAILER.size

    def scan(self, payloads=True):
        """Events in file order; where the file is damaged a Damaged as item, and then what follows it."""
        offset, entries = self.first_record, []
        while offset is not None and offset < self._end:
            try:
                event = self._head(offset)
            except Damaged as damage:
                index = self._index_here(offset, entries)
                if index == "ends":
                    return
                if index == "wrong":
                    damage = Damaged(offset, 0, "an index begins here that does not match the records before it")
                resumed, entries = self._resume(offset + 8), None
                damage.length = (self._end if resumed is None else resumed) - offset
                damage.torn = resumed is None and self.index_state == "absent" and index == "no"
                yield damage
                offset = resumed
                continue
            if entries is not None and self.index_state != "present" and len(entries) <= MAX_RECORDS:
                entries.append(IndexEntry(event.id, event.epoch, event.offset))
            offset += event.length
            try:
                item = self._payloads(event) if payloads else event
            except Damaged as damage:
                item = damage
            yield item

    def __iter__(self):
        for item in self.scan():
            if isinstance(item, Damaged):
                raise item
            yield item

    def index(self):
        """All index entries, sorted by event id, epoch and offset; made by a scan if the file has no index."""
        if self.index_state == "present":
            data = self._read(self._index_at + _INDEX_HEAD.size, self._records * _INDEX_ENTRY.size)
            return [IndexEntry._make(entry) for entry in _INDEX_ENTRY.iter_unpack(data)]
        if self._scanned is None:
            events = (item for item in self.scan(payloads=False) if not isinstance(item, Damaged))
            self._scanned = sorted(IndexEntry(event.id, event.epoch, event.offset) for event in events)
        return self._scanned

    def event(self, event_id):
        """The event with this id, of the highest epoch; None if the file does not have it."""
        found = None
        if self.index_state == "present":
            low, high = 0, self._records
            while low < high:
                middle = (low + high) // 2
                if self._entry(middle).event <= event_id:
                    low = middle + 1
                else:
                    high = middle
            found = self._entry(low - 1) if low else None
        else:
            found = max((entry for entry in self.index() if entry.event == event_id), default=None)
        if found is None or found.event != event_id:
            return None
        event = self._head(found.offset)
        if (event.id, event.epoch) != (found.event, found.epoch):
            raise Damaged(found.offset, event.length, "the index promises event %d here" % event_id, event_id)
        return self._payloads(event)

    def _entry(self, place):
        at = self._index_at + _INDEX_HEAD.size + place * _INDEX_ENTRY.size
        return IndexEntry._make(_INDEX_ENTRY.unpack(self._read(at, _INDEX_ENTRY.size)))


def _state(event):
    if not event.missing:
        return "complete"
    return "INCOMPLETE, missing " + " ".join(map(str, event.missing))


def _print_head(file):
    header = file.header
    who = "merged" if header.builder is None else "builder %d" % header.builder
    print("%s: run %d, epoch %d, %s, file %d, %d B, index %s, by %s" % (
        file.path, header.run, header.epoch, who, header.sequence, file.size, file.index_state, header.creator))
    print("sources: " + " ".join(map(str, header.sources)))


def _print_list(file):
    print("%12s %7s %9s %12s %12s  state" % ("event", "epoch", "fragments", "payload", "offset"))
    for item in file.scan(payloads=False):
        if isinstance(item, Damaged):
            print("! %s" % item)
            continue
        size = sum(part.length for part in item.fragments)
        row = (item.id, item.epoch, len(item.fragments), size, item.offset, _state(item))
        print("%12d %7d %9d %12d %12d  %s" % row)


def _print_event(event, with_bytes):
    print("event %d, run %d, epoch %d, builder %d, triggered %d ns, %s" % (
        event.id, event.run, event.epoch, event.builder, event.triggered_ns, _state(event)))
    for part in event.fragments:
        print("source %d, %d B, timestamp %d, crc %016x" % (part.source, part.length, part.timestamp, part.crc))
        for at in range(0, part.length if with_bytes else 0, 16):
            row = part.payload[at : at + 16]
            text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
            print("  %08x  %-48s |%s|" % (at, "".join("%02x " % byte for byte in row), text))


def _verify(file):
    """Reads everything; prints what it counted, and whether it is clean."""
    events = incomplete = payload = twice = 0
    seen = set()
    clean = file.index_state != "damaged"
    for item in file.scan():
        if isinstance(item, Damaged):
            clean = False
            print("! %s (%s of %d B)" % (item, "torn tail" if item.torn else "damage", item.length))
            continue
        if (item.id, item.epoch) in seen:
            twice += 1
            print("! event %d of epoch %d is there again at byte %d" % (item.id, item.epoch, item.offset))
        seen.add((item.id, item.epoch))
        events += 1
        payload += sum(part.length for part in item.fragments)
        if item.missing:
            incomplete += 1
            print("! event %d: %s" % (item.id, _state(item)))
    clean = clean and not incomplete and not twice
    row = (events, events - incomplete, incomplete, payload, "clean" if clean else "NOT CLEAN")
    print("%d events, %d complete, %d incomplete, %d B of payload: %s" % row)
    return clean


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Reads one event file of evb and checks its checksums.")
    parser.add_argument("file")
    parser.add_argument("--list", action="store_true", help="a line for each event")
    parser.add_argument("--event", type=int, metavar="N", help="one event")
    parser.add_argument("--hex", action="store_true", help="with --event: its bytes too")
    arguments = parser.parse_args(arguments)
    if arguments.hex and arguments.event is None:
        parser.error("--hex needs --event N")
    try:
        with EventFile(arguments.file) as file:
            if arguments.event is not None:
                event = file.event(arguments.event)
                if event is None:
                    print("%s: no event %d" % (file.path, arguments.event), file=sys.stderr)
                    return 1
                _print_event(event, arguments.hex)
                return 0
            _print_head(file)
            if arguments.list:
                _print_list(file)
                return 0
            return 0 if _verify(file) else 1
    except Damaged as damage:
        print("%s %s" % (arguments.file, damage), file=sys.stderr)
        return 1
    except (NotAnEventFile, OSError) as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        # The reader of a pipe (head, less) has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
