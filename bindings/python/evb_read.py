#!/usr/bin/env python3
"""Reads event files (*.evb) of the evb event builder with nothing but Python 3.8 and its standard library.

As a module:

    import evb_read
    with evb_read.EventFile("run000001_b01_0000.evb") as file:
        print(file.header.run, file.header.run_id, file.header.sources)
        for event in file:                       # in the order in which they were written
            print(event.id, event.utc_ns, event.complete, event.missing_causes)
            for fragment in event.fragments:
                print(fragment.source, fragment.timestamp, len(fragment.payload))
        event = file.event(12)                   # by event id, None if it is not there
    runs, unusable = evb_read.runs_of(evb_read.files_at(["out/events"]))
    print(runs[0].alignment)                     # sources whose fragments are in wrong events, and what happened
    print(runs[0].changes)                       # sources that an operator excluded or included
    for event in runs[0].realigned():            # by event id, with slips repaired
        ...

As a command:

    python3 evb_read.py PATH...                  # read everything, check every checksum; exit 1 if not clean
    python3 evb_read.py PATH... --list           # a line for each event (payloads are not read)
    python3 evb_read.py PATH... --event 12 [--hex]  # one event, with its bytes

A PATH is a file, or a directory, which stands for all *.evb in it. Files of one run belong together; --run N or the
first digits of a run's id choose a run.

Damage raises Damaged while iterating with `for event in file`; `file.scan()` gives damage as items and goes on after
it. If a file's header is damaged, `file.recovered` says where its content came from. The FILE-n in comments are the
requirements of docs/reference/file-format.md, which describes both versions of the format.
"""

import argparse
import bisect
import contextlib
import datetime
import heapq
import json
import os
import re
import stat
import struct
import sys
from collections import Counter, deque, namedtuple

FILE_MAGIC = b"\x89EVB\r\n\x1a\n"
TRAILER_MAGIC = b"EVB-END\n"
NEWEST_VERSION = 2
MAX_SOURCES = 65536
MAX_HEADER_1 = 56 + 2 * MAX_SOURCES + 1024 + 8
MAX_HEADER = 1 << 24
MAX_HEAD = 1 << 22
MAX_RECORD = 1 << 40
MAX_RECORDS = 1 << 20
MAX_TAGS = 1024
MAX_LIST = 1 << 20
MAX_BESIDE = 2 << 20
MAX_SHIFT = 1024
MAX_CHANGES = 1000

# Little-endian, without padding between fields.
_FRONT = struct.Struct("<8sHHI")
_HEADER_1 = struct.Struct("<8sHHIIHHQIIQII")
_HEADER_2 = struct.Struct("<8sHHIIHH16sQIIQQB7x")
_LEAST_HEADER = _HEADER_2.size + 8
_RECORD_1 = struct.Struct("<4sIQQQQIHHII")
_RECORD_2 = struct.Struct("<4sIQQQQQQI4sHHI")
_SECTION = struct.Struct("<HHI")
_FRAGMENT = struct.Struct("<HBBIQQ")
_WITHOUT = struct.Struct("<HBx")
_NAME = struct.Struct("<HH")
_INDEX_HEAD = struct.Struct("<4sIQ")
_INDEX_ENTRY = struct.Struct("<QQQ")
_TRAILER = struct.Struct("<QQ8s")

CAUSES = {
    0: "unknown",
    1: "down",
    2: "silent until the deadline",
    3: "no readout",
    4: "refused",
    5: "damaged",
    6: "lost in the network",
    7: "given up at the end of the run",
    8: "released by exclude",
    9: "packets lost before the source",
    16: "excluded",
    17: "expendable",
}
ALIGNMENTS = ("not checked", "agrees", "disagrees", "not known", "moved")
CLOCKS = {0: "unknown", 1: "synchronised", 2: "not synchronised"}

Header = namedtuple(
    "Header",
    "run epoch builder sequence created_unix_ns sources creator version run_id begun_unix_ns clock kind comment"
    " source_names builder_names episodes changes",
    defaults=[(), ()],
)
Header.__doc__ = """Whose data a file holds.

builder is None in a merged file. run_id has 32 hexadecimal digits, 8 if only these are known, or is empty.
begun_unix_ns is the begin of the run on the supervisor's clock, 0 if unknown; clock is what the supervisor's kernel
said of this clock. episodes and changes have what the header says of sources. Format 1 has nothing after creator.
"""

Episode = namedtuple("Episode", "source since until kind shift misaligned disputed text")
Episode.__doc__ = """What happened to the fragments of a source, in the events from since to until (None: to the end).

kind is a word such as "slip"; the fragment of event n then belongs to event n + shift. misaligned says that fragments
are in wrong events, or may be; disputed, that it may as well be the contrary of the other sources.
"""

Change = namedtuple("Change", "source excluded from_event utc why")
Change.__doc__ = """An operator excluded a source from from_event on, or included it again, and said why.

utc is the time of the request as a text such as 2026-11-30T02:50:02.123456789Z; None before the begin of the run.
"""


class Fragment(namedtuple("Fragment", "source timestamp length crc payload alignment lost_packets")):
    """One source's data; payload is None if only the head was read.

    alignment says whether the fragment belongs to the event, by its time: "not checked", "agrees", "disagrees",
    "not known", or "moved" here by a repair.
    """

    __slots__ = ()

    @property
    def aligned(self):
        """True if the fragment agrees or was moved here, False if it disagrees, None if nothing is known."""
        return {"agrees": True, "moved": True, "disagrees": False}.get(self.alignment)


IndexEntry = namedtuple("IndexEntry", "event epoch offset")


class Event(
    namedtuple(
        "Event",
        "id run epoch builder triggered_ns missing fragments offset length utc_ns missing_causes absent"
        " absent_causes tag run_id refused",
    )
):
    """One built event.

    missing has the sources that owed the event a fragment and did not contribute; absent has those that did not owe
    it one, and did not contribute. missing_causes and absent_causes say why: {source: cause}. utc_ns is the time of
    the trigger since 1970 in UTC, 0 if unknown. run_id has the first 8 digits of the run's id, or is empty. refused
    is None; an event that needs a newer evb is Damaged instead.
    """

    __slots__ = ()

    @property
    def complete(self):
        """Whether every source that owed the event a fragment contributed one."""
        return not self.missing

    @property
    def whole(self):
        """Whether every source of the run contributed, and no fragment lost packets."""
        return not self.missing and not self.absent and not any(part.lost_packets for part in self.fragments)

    @property
    def aligned(self):
        """Whether no fragment is known to belong to another event."""
        return all(part.aligned is not False for part in self.fragments)


class NotAnEventFile(Exception):
    """The front of the file cannot be used, and nothing in the file replaces it."""


class Damaged(Exception):
    """A part of the file is not what was written, or needs a newer reader."""

    def __init__(self, offset, length, what, event=None, torn=False):
        super().__init__("at byte %d: %s" % (offset, what))
        self.offset = offset
        self.length = length
        self.event = event
        self.torn = torn
        """Whether this is the torn tail of a file whose writer was killed."""

    @property
    def remedy(self):
        """What to do about it."""
        if self.torn:
            return "verify all files of the run to see if the event is elsewhere"
        if "newer evb" in str(self):
            return "read this one with the newer evb"
        if str(self).endswith(_PAST_END):
            return "read the file again after the run, or restore it from a copy"
        return "restore the file from a copy"


class _Refused(Exception):
    """A section or flag that only a newer reader understands (FILE-14)."""


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


def cause_text(code):
    """The cause of that code in words."""
    return CAUSES.get(code, "cause %d" % code)


# A ValueError while a header or a record is decoded has no text: who reads the file is told which file or record
# contradicts itself.


def _sections(data, known):
    """The bodies of the sections that fill data, by type, and the first unknown one that is required (FILE-9)."""
    found, at, last, refused = {}, 0, -1, None
    while at < len(data):
        if len(data) - at < _SECTION.size:
            raise ValueError  # A section does not fit.
        kind, flags, length = _SECTION.unpack_from(data, at)
        at += _SECTION.size
        if _aligned(length) > len(data) - at or kind <= last:
            raise ValueError  # A section does not fit, or the types do not ascend.
        found[kind] = data[at : at + length]
        if kind not in known and flags & 1 and refused is None:
            refused = kind
        at, last = at + _aligned(length), kind
    return found, refused


def _without(body):
    """Sources and causes of a section that lists sources without a fragment."""
    if len(body) % _WITHOUT.size:
        raise ValueError  # The section has half an entry.
    return {source: cause_text(cause) for source, cause in _WITHOUT.iter_unpack(body)}


def _names(body):
    names, at, last = {}, 0, -1
    while at < len(body):
        if len(body) - at < _NAME.size:
            raise ValueError  # A name does not fit.
        number, length = _NAME.unpack_from(body, at)
        at += _NAME.size
        if length > len(body) - at or number <= last:
            raise ValueError  # A name does not fit, or the ids do not ascend.
        names[number] = body[at : at + length].decode("utf-8")
        at, last = at + length, number
    return names


def _listed(text, name, make, most=MAX_LIST):
    """The items of the list in a text, or of its list of that name; none if they are of a later version of evb."""
    try:
        told = json.loads(text) if len(text) <= most else []
        return [make(one) for one in (told[name] if isinstance(told, dict) else told)]
    except (ValueError, AttributeError, KeyError, TypeError, OverflowError, RecursionError):
        return []


def _episode(one):
    return Episode(*map(one.get, Episode._fields))


def _change(one):
    source, event = int(one.get("source", 0)), int(one.get("from", 0))
    if not (0 <= source < MAX_SOURCES and 0 <= event < 1 << 64):
        raise ValueError  # There is no such source or event.
    utc = one.get("utc") and str(one["utc"])
    return Change(source, bool(one.get("excluded")), event, utc, str(one.get("why", "")))


def _joined_changes(changes):
    """The changes that hold by several lists, in the order of their first events, each once. A later change of a
    source takes the place of those that apply from its first event on, or from a later one."""
    firsts, held = {}, []
    for one in sorted(changes, key=lambda one: (one.utc or "", one.from_event), reverse=True):
        if one.source not in firsts or one.from_event < firsts[one.source]:
            firsts[one.source] = one.from_event
            held.append(one)
    return sorted(held, key=lambda one: (one.from_event, one.source))[:MAX_CHANGES]


def _joined(episodes):
    """Episodes of several files in the order of their first events, each once."""
    found = {}
    for one in episodes:
        if one.until is not None or (one.since, one.source) not in found:
            found[one.since, one.source] = one
    return [found[key] for key in sorted(found)]


def realigned(events, episodes):
    """Events that come in the order of their ids, with the fragments of sources that slipped moved to their events."""
    slips = [one for one in episodes if one.misaligned and one.shift and abs(one.shift) <= MAX_SHIFT]
    lag = max((-one.shift for one in slips), default=0)
    held, moving = deque(), {}
    for event in events:
        kept = []
        for part in event.fragments:
            slip = _slip(slips, event.id, part)
            if slip is None:
                kept.append(part)
            else:
                moving[event.id + slip.shift, part.source] = part._replace(alignment="moved")
        held.append(event._replace(fragments=tuple(kept)))
        while held and held[0].id + lag <= event.id:
            yield _moved_here(held.popleft(), moving, slips)
    for event in held:
        yield _moved_here(event, moving, slips)


def _slip(slips, event, part):
    """The slip because of which a fragment belongs to another event; of two, the later one counts. How an episode ends
    is known only roughly, and the builder's word decides."""
    for slip in reversed(slips):
        if slip.source == part.source and slip.since <= event:
            lasts = slip.until is None and part.alignment != "moved"
            if lasts or (slip.until is not None and event <= slip.until and part.alignment == "disagrees"):
                return slip
    return None


def _moved_here(event, moving, slips):
    """The event with the fragments that belong to it."""
    parts = {part.source: part for part in event.fragments}
    for number, source in sorted(key for key in moving if key[0] <= event.id):
        part = moving.pop((number, source))
        if number == event.id:
            parts.setdefault(source, part)
    missing = {one: why for one, why in event.missing_causes.items() if one not in parts}
    absent = {one: why for one, why in event.absent_causes.items() if one not in parts}
    for slip in slips:
        if slip.since <= event.id and slip.source not in parts and slip.source not in absent:
            missing.setdefault(slip.source, "unknown")
    return event._replace(
        fragments=tuple(parts[source] for source in sorted(parts)), missing=tuple(sorted(missing)),
        missing_causes=missing, absent=tuple(absent), absent_causes=absent
    )  # fmt: skip


def _header_1(data):
    """Decodes a header of format 1 whose checksum is right; raises ValueError if it contradicts itself."""
    (_, _, flags, length, run, builder, _, epoch, sequence, sources, created, creator, _) = _HEADER_1.unpack_from(data)
    names = _HEADER_1.size + 2 * sources
    if flags & ~1 or _aligned(names + creator) + 8 != length:
        raise ValueError  # A length or flag is wrong.
    ids = struct.unpack_from("<%dH" % sources, data, _HEADER_1.size)
    text = data[names : names + creator].decode("utf-8")
    if any(data[names + creator : -8]):
        raise ValueError  # The padding is not zero.
    builder = None if flags & 1 else builder
    return Header(run, epoch, builder, sequence, created, ids, text, 1, "", 0, "unknown", "", "", {}, {})


def _header_2(data):
    """Decodes a header of format 2 whose checksum is right; raises ValueError or _Refused."""
    (_, _, flags, _, run, builder, _, run_id, epoch, sequence, sources, created, begun, clock) = (
        _HEADER_2.unpack_from(data)
    )
    end = _HEADER_2.size + _aligned(2 * sources)
    if sources > MAX_SOURCES or end > len(data) - 8:
        raise ValueError  # The number of sources is wrong.
    ids = struct.unpack_from("<%dH" % sources, data, _HEADER_2.size)
    sections, refused = _sections(data[end:-8], range(1, 8))
    creator, kind, comment = (sections.get(number, b"").decode("utf-8") for number in (1, 2, 3))
    names = [_names(sections.get(number, b"")) for number in (4, 5)]
    if flags & ~1:
        raise _Refused("its flags %#06x need a newer evb: read it with that" % (flags & ~1))
    if refused is not None:
        raise _Refused("section %d of its header is required and needs a newer evb: read it with that" % refused)
    builder, run_id = None if flags & 1 else builder, run_id.hex() if any(run_id) else ""
    return Header(
        run, epoch, builder, sequence, created, ids, creator, 2, run_id, begun, CLOCKS.get(clock, "unknown"), kind,
        comment, *names, _listed(sections.get(6, b"[]"), "", _episode), _listed(sections.get(7, b"[]"), "", _change)
    )  # fmt: skip


class _Layout1:
    """Records and closing blocks of format 1."""

    record, index, prefix, header_copy = b"EVBR", b"EVBI", _RECORD_1.size, b""

    def __init__(self, tag):
        self.tag = tag

    def seal(self, crc):
        return crc ^ self.tag

    def lengths(self, prefix):
        """Lengths of head and record, if they agree with the rest of the prefix (FILE-31)."""
        _, head, length, _, _, _, _, _, _, fragments, missing = _RECORD_1.unpack(prefix)
        wanted = _RECORD_1.size + _FRAGMENT.size * fragments + _aligned(2 * missing) + 8
        return (head, length) if max(fragments, missing) <= MAX_SOURCES and head == wanted else None

    def is_of_another_file(self, _):
        return False

    def decode(self, data, offset, length):
        """The event of a head whose checksum is right, or what is wrong with it."""
        (_, _, _, event, epoch, triggered, run, builder, flags, fragments, missing) = _RECORD_1.unpack_from(data)
        tables = _RECORD_1.size + _FRAGMENT.size * fragments
        parts = tuple(
            Fragment(source, timestamp, size, crc, None, ALIGNMENTS[0], 0)
            for source, _, _, size, timestamp, crc in _FRAGMENT.iter_unpack(data[_RECORD_1.size : tables])
        )
        ids = struct.unpack_from("<%dH" % missing, data, tables)
        if flags != (1 if missing else 0):
            return _RESERVED
        causes = dict.fromkeys(ids, "unknown")
        return Event(event, run, epoch, builder, triggered, ids, parts, offset, length, 0, causes, (), {}, 0, "", None)


class _Layout2:
    """Records and closing blocks of format 2."""

    record, index, prefix = b"EVR2", b"EVX2", _RECORD_2.size

    def __init__(self, tag, header_copy):
        self.tag, self.header_copy = tag, header_copy
        """tag is None while the tag of the file is looked for; header_copy is None if the header is lost."""

    def seal(self, crc):
        return crc

    def lengths(self, prefix):
        """Lengths of head and record, if they agree with the rest of the prefix (FILE-31)."""
        _, head, length, _, _, _, _, _, _, _, _, _, fragments = _RECORD_2.unpack(prefix)
        least = _RECORD_2.size + _FRAGMENT.size * fragments + 8
        return (head, length) if fragments <= MAX_SOURCES and head % 8 == 0 and least <= head <= MAX_HEAD else None

    def is_of_another_file(self, prefix):
        return self.tag is not None and _RECORD_2.unpack(prefix)[7] != self.tag

    def decode(self, data, offset, length):
        """The event of a head whose checksum is right, or what is wrong with it."""
        (_, _, _, event, epoch, triggered, utc, _, run, short, builder, flags, fragments) = (
            _RECORD_2.unpack_from(data)
        )
        tables = _RECORD_2.size + _FRAGMENT.size * fragments
        try:
            sections, refused = _sections(data[tables:-8], range(1, 5))
            missing, absent = _without(sections.get(1, b"")), _without(sections.get(2, b""))
            (tag,) = struct.unpack("<Q", sections.get(3, bytes(8)))
            lost = struct.unpack("<%dI" % fragments, sections.get(4, bytes(4 * fragments)))
        except (ValueError, struct.error):
            return _LENGTHS
        what = None
        if flags & ~1:
            what = "its flags %#06x need a newer evb" % (flags & ~1)
        elif refused is not None:
            what = "its section %d is required and needs a newer evb" % refused
        elif flags != (1 if missing else 0):
            return _RESERVED
        table = _FRAGMENT.iter_unpack(data[_RECORD_2.size : tables])
        parts = tuple(
            Fragment(source, timestamp, size, crc, None, ALIGNMENTS[state if state < 5 else 3], packets)
            for (source, state, _, size, timestamp, crc), packets in zip(table, lost)
        )
        run_id = short.hex() if any(short) else ""
        return Event(
            event, run, epoch, builder, triggered, tuple(missing), parts, offset, length, utc, missing,
            tuple(absent), absent, tag, run_id, what
        )  # fmt: skip


_LENGTHS = "the lengths in the record's head contradict each other"
_PAST_END = "the file ends inside this record: it was cut off, or its builder still writes it"
_UNCHECKED = "this record is not checked, because too much of the file before it is damaged"
_RESERVED = "the flags in the record's head contradict the rest of the record"
_NO_EVENT_FILE = (
    "it is not an event file, or its beginning is damaged (it is not 89 45 56 42 0d 0a 1a 0a): give an event file, or"
    " restore it from a copy"
)
_SHORT_HEADER = (
    "it ends inside its header, so it holds no event: a builder that is stopped at once leaves such a file, which can"
    " be removed; if it was longer, restore it from a copy"
)
_LATER_VERSION = "its format is version %d, but this program reads versions 1 and %d: use a newer evb"
_BY_SCAN = ": readers find the records without it; `evbd merge` makes a file with a right index"
_CONTRADICTION = (
    "its header contradicts itself, a fault of the program that wrote it: send the file to the authors of that program (of evb, if a builder wrote it)"
)


class EventFile:
    """An open event file. check_payloads=False leaves out the payload checksums, which take most of the time."""

    _LEAST_BLOCK = _INDEX_HEAD.size + _LEAST_HEADER + _TRAILER.size

    def __init__(self, path, check_payloads=True):
        self.path = os.fspath(path)
        self.check_payloads = check_payloads
        self.recovered = None
        """'closing block' or 'records' if the header is damaged, and its content comes from there."""
        if not os.path.isdir(self.path) and not stat.S_ISREG(os.stat(self.path).st_mode):
            # A pipe would wait for a writer.
            what = "it is not a regular file; give an event file, or a directory of event files"
            raise NotAnEventFile("cannot read %s: %s" % (self.path, what))
        self._file = open(self.path, "rb")
        try:
            self.size = os.fstat(self._file.fileno()).st_size
            self._open_header()
            self._find_index()
        except BaseException:
            self._file.close()
            raise
        self._scanned = None

    @property
    def alignment(self):
        """What happened to sources, by the header and by the file that a builder keeps beside this one."""
        return _joined([*self.header.episodes, *_listed(self._beside(), "episodes", _episode, MAX_BESIDE)])

    @property
    def changes(self):
        """Which sources an operator excluded or included, by the same two."""
        return _joined_changes([*self.header.changes, *_listed(self._beside(), "changes", _change, MAX_BESIDE)])

    def _beside(self):
        """The text of the file beside this one, if it is of the same run."""
        name = "run%06d_b%02d.alignment.json" % (self.header.run, self.header.builder or 0)
        try:
            with open(os.path.join(os.path.dirname(self.path), name), "rb") as file:
                text = file.read(MAX_BESIDE + 1)
            is_of_run = self.header.builder is not None and json.loads(text)["run_id"] == self.header.run_id
            return text if is_of_run else b"[]"
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return b"[]"

    def close(self):
        self._file.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _read(self, offset, count):
        self._file.seek(offset)
        return self._file.read(count)

    def _open_header(self):
        """Reads the header, or what stands in its place if it is damaged."""
        data, problem = self._intact_header()
        if data is None:
            data = self._copy_of_header()
            self.recovered = data and "closing block"
        if data is not None:
            self._use_header(data)
        elif self._read(0, 10) == FILE_MAGIC + b"\1\0" or not self._header_from_records():
            raise NotAnEventFile("cannot read %s: %s" % (self.path, problem))

    def _intact_header(self):
        """The bytes of the header, or None and what is wrong with them (FILE-10, FILE-11)."""
        front = self._read(0, _FRONT.size)
        if front[:8] != FILE_MAGIC[: len(front)]:
            return None, _NO_EVENT_FILE
        if len(front) < _FRONT.size:
            return None, _SHORT_HEADER
        _, version, _, length = _FRONT.unpack(front)
        least, most = {1: (_HEADER_1.size + 8, MAX_HEADER_1), 2: (_LEAST_HEADER, MAX_HEADER)}.get(version, (8, MAX_HEADER))
        fits = least <= length <= most and (length % 8 == 0 or version > 2)
        data = self._read(0, length) if fits else None
        if data is not None and len(data) == length and crc64(data[:-8]) == int.from_bytes(data[-8:], "little"):
            return data, None
        if version not in (1, 2):
            return None, _LATER_VERSION % (version, NEWEST_VERSION)
        if data is not None and len(data) < length:
            return None, _SHORT_HEADER
        return None, "its header is damaged (wrong checksum), so none of its events can be read: restore it from a copy"

    def _use_header(self, data):
        _, version, _, length = _FRONT.unpack_from(data)
        self._tag, self.first_record = int.from_bytes(data[-8:], "little"), length
        if version not in (1, 2):
            raise NotAnEventFile("cannot read %s: %s" % (self.path, _LATER_VERSION % (version, NEWEST_VERSION)))
        try:
            self.header = _header_1(data) if version == 1 else _header_2(data)
        except (ValueError, struct.error):
            raise NotAnEventFile("cannot read %s: %s" % (self.path, _CONTRADICTION)) from None
        except _Refused as refused:
            raise NotAnEventFile("cannot read %s: %s" % (self.path, refused)) from None
        self._layout = _Layout1(self._tag) if version == 1 else _Layout2(self._tag, data)

    def _copy_of_header(self):
        """The copy of the header in the closing block of a file of format 2 (FILE-36, FILE-44)."""
        trailer = self._read(max(self.size - _TRAILER.size, 0), _TRAILER.size)
        if len(trailer) < _TRAILER.size or trailer[16:] != TRAILER_MAGIC:
            return None
        offset = _TRAILER.unpack(trailer)[0]
        if offset % 8 or self.size - offset < self._LEAST_BLOCK:
            return None
        magic, entry, records = _INDEX_HEAD.unpack(self._read(offset, _INDEX_HEAD.size))
        if magic != _Layout2.index or entry != _INDEX_ENTRY.size or records > MAX_RECORDS:
            return None
        at = offset + _INDEX_HEAD.size + _INDEX_ENTRY.size * records
        length = self.size - _TRAILER.size - at
        if length % 8 or not _LEAST_HEADER <= length <= MAX_HEADER:
            return None
        data = self._read(at, length)
        front = _FRONT.unpack_from(data)
        intact = crc64(data[:-8]) == int.from_bytes(data[-8:], "little")
        return data if front[0] == FILE_MAGIC and front[1] == 2 and front[3] == length and intact else None

    def _header_from_records(self):
        """Finds the file's tag in its records, each of which can be checked alone; False if there is none (FILE-37)."""
        self._layout, self._end, self.index_state = _Layout2(None, None), self.size, "absent"
        found, vain = {}, [0]
        at = self._resume(0, vain)
        while at is not None:
            try:
                event = self._head(at)
            except Damaged:
                at = self._resume(at + 8, vain)
                continue
            # For each tag: the size of its records, the first of them, the lowest epoch, and the builders.
            tag = _RECORD_2.unpack(self._read(at, _RECORD_2.size))[7]
            if tag in found or len(found) < MAX_TAGS:
                size, first, epoch, builders = found.get(tag, (0, event, event.epoch, set()))
                found[tag] = (size + event.length, first, min(epoch, event.epoch), builders | {event.builder})
            at = self._resume(at + event.length, vain)
        if not found:
            return False
        self._tag = max(found, key=lambda tag: (found[tag][0], -found[tag][1].offset))
        _, first, epoch, builders = found[self._tag]
        self.recovered, self.first_record = "records", first.offset
        builder = first.builder if len(builders) == 1 else None
        self.header = Header(
            first.run, epoch, builder, 0, 0, (), "", 2, first.run_id, 0, "unknown", "", "", {}, {}
        )  # fmt: skip
        self._layout = _Layout2(self._tag, None)
        return True

    def _find_index(self):
        """Sets index_state to 'present', 'absent' or 'damaged', and where records end at the latest (FILE-40 ff.)."""
        self.index_state, self._index_at, self._records = "absent", None, 0
        self._end = self.size
        if self._layout.header_copy is None:
            # The block cannot be whole without the copy of the header (FILE-44).
            offset, _, magic = _TRAILER.unpack(self._read(self.size - _TRAILER.size, _TRAILER.size))
            if magic == TRAILER_MAGIC and self.first_record <= offset <= self.size and offset % 8 == 0:
                if self.size - offset >= self._LEAST_BLOCK:
                    self.index_state, self._index_at = "damaged", offset
            return
        least = self._index_size(0)
        if self.size < self.first_record + least:
            return
        offset, sealed, magic = _TRAILER.unpack(self._read(self.size - _TRAILER.size, _TRAILER.size))
        entries = self.size - offset - least
        records, rest = divmod(entries, _INDEX_ENTRY.size)
        if magic != TRAILER_MAGIC or entries < 0 or rest or records > MAX_RECORDS or offset < self.first_record:
            return
        self._index_at, self._records = offset, records
        content = self._read(offset, self.size - 16 - offset)
        head = _INDEX_HEAD.pack(self._layout.index, _INDEX_ENTRY.size, records)
        copied = content[:-8].endswith(self._layout.header_copy)
        if content.startswith(head) and copied and self._layout.seal(crc64(content)) == sealed:
            self.index_state, self._end = "present", offset
        else:
            self.index_state = "damaged"

    def _head(self, offset, vain=None):
        """The event at offset without its payloads; Damaged where there is none. In a walk over the file, vain is a
        list of one number: the bytes of heads that were checked in vain."""
        layout, available = self._layout, self._end - offset
        prefix = self._read(offset, min(layout.prefix, available))
        if prefix[:4] != layout.record[: len(prefix)]:
            raise Damaged(offset, 0, "no record begins here")
        if len(prefix) < layout.prefix:
            raise Damaged(offset, 0, _PAST_END)
        # Nothing is read by a length that contradicts the others (FILE-31).
        lengths = layout.lengths(prefix)
        if lengths is None or lengths[1] < lengths[0] or lengths[1] > MAX_RECORD:
            raise Damaged(offset, 0, _LENGTHS)
        head, length = lengths
        if length > available:
            raise Damaged(offset, 0, _PAST_END)
        if layout.is_of_another_file(prefix):
            what = "the record belongs to another file: it is an old disk block, or was copied into this one"
            raise Damaged(offset, 0, what)
        if vain is None:
            return self._whole_head(offset, head, length)
        # Each few bytes may be the front of a head of megabytes, and a small file could take hours (FILE-39).
        if vain[0] + head > MAX_HEAD + 16 * offset:
            raise Damaged(offset, 0, _UNCHECKED)
        try:
            return self._whole_head(offset, head, length)
        except Damaged:
            vain[0] += head
            raise

    def _whole_head(self, offset, head, length):
        layout, data = self._layout, self._read(offset, head)
        if len(data) < head or layout.seal(crc64(data[:-8])) != int.from_bytes(data[-8:], "little"):
            raise Damaged(offset, 0, "the checksum of the record's head is wrong")
        event = layout.decode(data, offset, length)
        if isinstance(event, str):
            raise Damaged(offset, 0, event)
        if head + _aligned(sum(part.length for part in event.fragments)) != length:
            raise Damaged(offset, 0, _LENGTHS)
        return event

    def _is_head(self, offset, vain):
        try:
            self._head(offset, vain)
            return True
        except Damaged:
            return False

    def _accepted(self, event):
        what, header = event.refused, self.header
        own = (event.run, event.run_id) == (header.run, header.run_id[:8]) and header.builder in (None, event.builder)
        if what is None and not own:
            what = "the record belongs to another run or builder than the file: it is an old disk block, or was copied into it"
        if what is not None:
            raise Damaged(event.offset, event.length, "event %d: %s" % (event.id, what), event.id)
        return event

    def _payloads(self, event):
        """The event with its payloads, checked."""
        self._accepted(event)
        size = sum(part.length for part in event.fragments)
        start = event.length - _aligned(size)
        data = self._read(event.offset + start, event.length - start)
        if len(data) < event.length - start:
            what = "event %d: the file has become shorter since it was opened" % event.id
            raise Damaged(event.offset, event.length, what, event.id)
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

    def _resume(self, start, vain):
        """Where from start on the next intact record head, or an index, begins (FILE-33)."""
        piece, layout = 1 << 20, self._layout
        for base in range(start, self._end, piece):
            data = self._read(base, min(piece + 3, self._end - base))
            at = -1
            while True:
                at = data.find(b"EV", at + 1)
                if at < 0 or at >= piece:
                    break
                if (base + at) % 8 == 0 and data[at : at + 4] in (layout.record, layout.index):
                    if self._begins_index(base + at) or self._is_head(base + at, vain):
                        return base + at
        return None

    def _begins_index(self, offset):
        head = self._read(offset, _INDEX_HEAD.size)
        if len(head) < _INDEX_HEAD.size:
            return False
        records = _INDEX_HEAD.unpack(head)[2]
        known = head == _INDEX_HEAD.pack(self._layout.index, _INDEX_ENTRY.size, records) and records <= MAX_RECORDS
        # Without the header, the size of the block is not known.
        fills = self._layout.header_copy is not None and self.size - offset == self._index_size(records)
        return known and fills

    def _index_here(self, offset, entries):
        """Whether an index begins at offset, where no record does: 'no', 'ends' or 'wrong'; entries are those of the
        records before it, None if some of these are not known (FILE-35)."""
        if self.index_state == "present":
            return "no"
        if self.index_state == "damaged" and (offset == self._index_at or self._begins_index(offset)):
            return "ends"
        head = self._read(offset, _INDEX_HEAD.size)
        if head[:4] != self._layout.index:
            return "no"
        torn = self.index_state == "absent"
        if entries is None or self._layout.header_copy is None:
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
        index = bytearray(_INDEX_HEAD.pack(self._layout.index, _INDEX_ENTRY.size, len(entries)))
        for entry in sorted(entries):
            index += _INDEX_ENTRY.pack(*entry)
        index += self._layout.header_copy + struct.pack("<Q", offset)
        index += struct.pack("<Q", self._layout.seal(crc64(bytes(index)))) + TRAILER_MAGIC
        found = self._read(offset, self.size - offset)
        same = next((at for at in range(len(found)) if found[at] != index[at]), len(found))
        return same == len(found) or same >= _INDEX_HEAD.size and not any(found[same:])

    def _index_size(self, records):
        copy = MAX_HEADER if self._layout.header_copy is None else len(self._layout.header_copy)
        return _INDEX_HEAD.size + _INDEX_ENTRY.size * records + copy + _TRAILER.size

    def scan(self, payloads=True):
        """Events in file order; where the file is damaged a Damaged as item, and then what follows it."""
        offset, entries, vain = self.first_record, [], [0]
        while offset is not None and offset < self._end:
            try:
                event = self._head(offset, vain)
            except Damaged as damage:
                index = self._index_here(offset, entries)
                if index == "ends":
                    return
                if index == "wrong":
                    damage = Damaged(offset, 0, "an index begins here that does not match the records before it")
                resumed, entries = self._resume(offset + 8, vain), None
                damage.length = (self._end if resumed is None else resumed) - offset
                damage.torn = resumed is None and self.index_state == "absent" and index == "no"
                yield damage
                offset = resumed
                continue
            if entries is not None and self.index_state != "present" and len(entries) <= MAX_RECORDS:
                entries.append(IndexEntry(event.id, event.epoch, event.offset))
            offset += event.length
            try:
                item = self._payloads(event) if payloads else self._accepted(event)
            except Damaged as damage:
                item = damage
            yield item

    def __iter__(self):
        for item in self.scan():
            if isinstance(item, Damaged):
                raise item
            yield item

    def index(self):
        """All index entries, sorted by event id, epoch and offset. They are those of a scan if the file has no index, or
        one that does not match the records: an index is a help, and never the truth (FILE-45)."""
        if self._scanned is None:
            events, damaged = [], []
            for item in self.scan(payloads=False):
                (damaged if isinstance(item, Damaged) else events).append(item)
            self._scanned = sorted(IndexEntry(event.id, event.epoch, event.offset) for event in events)
            if self.index_state == "present":
                told = self.told_index()
                self._scanned = told if self._matches(told, damaged) else self._scanned
        return self._scanned

    def _matches(self, told, damaged):
        """Whether the entries are those of all records found, and besides lead to all damaged regions, and to these only."""
        found, regions = Counter(self._scanned), [item.offset for item in damaged]
        others = Counter(told)
        others.subtract(found)
        if min(others.values(), default=0) < 0:
            return False
        met = set()
        for entry in others.elements():
            place = bisect.bisect_right(regions, entry.offset) - 1
            if place < 0 or entry.offset >= regions[place] + damaged[place].length:
                return False
            met.add(place)
        return len(met) == len(regions)

    def told_index(self):
        """The entries that an intact index of the file has."""
        data = self._read(self._index_at + _INDEX_HEAD.size, self._records * _INDEX_ENTRY.size)
        return [IndexEntry._make(entry) for entry in _INDEX_ENTRY.iter_unpack(data)]

    def event(self, event_id, epochs=(0, (1 << 64) - 1)):
        """The event with this id, of the highest of these epochs; None if the file does not have it."""
        first, last = epochs
        found = max((entry for entry in self.index() if (event_id, 0) <= entry[:2] <= (event_id, last)), default=None)
        if found is None or found.event != event_id or found.epoch < first:
            return None
        event = self._head(found.offset)
        if (event.id, event.epoch) != (found.event, found.epoch):
            what = "the index of the file points here for event %d, but another record stands here" % event_id
            raise Damaged(found.offset, event.length, what, event_id)
        return self._payloads(event)


class Run:
    """The files of one run."""

    def __init__(self, path, header):
        self.number, self.run_id, self.epoch = header.run, header.run_id, header.epoch
        self.begun_unix_ns, self.files = header.begun_unix_ns, [path]

    def join(self, other):
        """Takes the files of another run, which has turned out to be this one."""
        self.files += other.files
        self.epoch = min(self.epoch, other.epoch)
        self.begun_unix_ns = max(self.begun_unix_ns, other.begun_unix_ns)
        if len(other.run_id) > len(self.run_id):
            self.run_id = other.run_id

    @property
    def alignment(self):
        """What happened to the timestamps of sources, by all files."""
        return _joined(self._by_files(lambda file: file.alignment))

    @property
    def changes(self):
        """Which sources an operator excluded or included, by all files, in the order of the first events."""
        return _joined_changes(self._by_files(lambda file: file.changes))

    def _by_files(self, listed):
        """The items of the lists of all files."""
        found = []
        for path in self.files:
            with EventFile(path) as file:
                found += listed(file)
        return found

    def realigned(self):
        """The events in the order of their ids, with slips repaired: see realigned."""
        return realigned(self._in_order(), self.alignment)

    def _in_order(self):
        """The events of all files in the order of their ids. Of several copies, the highest epoch counts."""
        with contextlib.ExitStack() as opened:
            files = [opened.enter_context(EventFile(path)) for path in self.files]
            lists = [sorted((one.event, -one.epoch, place, one.offset) for one in file.index()) for place, file in enumerate(files)]
            last = None
            for number, _, place, offset in heapq.merge(*lists):
                if number == last:
                    continue
                try:
                    event = files[place]._payloads(files[place]._head(offset))
                except Damaged as damage:
                    _say("! %s %s; the event is left out: %s" % (self.files[place], damage, damage.remedy), file=sys.stderr)
                    continue
                last = number
                yield event

    def __str__(self):
        name = self.run_id[:8] or "id unknown, epoch %d" % self.epoch
        begun = ", begun %s" % utc_text(self.begun_unix_ns) if self.begun_unix_ns else ""
        files = "%d file%s" % (len(self.files), "" if len(self.files) == 1 else "s")
        return "run %d (%s%s, %s)" % (self.number, name, begun, files)


def _by_number(path):
    """A key by which numbers in names count by their values: file 10000 follows file 9999."""
    parts = re.split("([0-9]+)", os.path.basename(path))
    return [int(part) if place % 2 else part for place, part in enumerate(parts)], path


def files_at(paths):
    """The files at the given paths, each once; a directory stands for all *.evb in it."""
    seen, files = set(), []
    for path in paths:
        found = [path]
        if os.path.isdir(path):
            found = sorted((entry.path for entry in os.scandir(path) if entry.name.endswith(".evb")), key=_by_number)
        files += [one for one in found if os.path.realpath(one) not in seen]
        seen.update(map(os.path.realpath, found))
    return files


def runs_of(paths, same_run=False):
    """Divides files into runs (FILE-60, FILE-61); returns these, and the files that cannot be used with the reason.

    Files of format 2 have the id of their run. Files without an id belong to one run if their headers have the same
    run number and epoch, or if their records link them; same_run takes all of one run number for one run.
    """
    runs, short, unusable = [], [], []
    for path in paths:
        try:
            with EventFile(path) as file:
                one = Run(path, file.header)
                from_records = file.recovered == "records" and one.run_id
        except (NotAnEventFile, OSError) as error:
            unusable.append((path, error))
            continue
        if from_records:
            short.append(one)
            continue
        key = one.run_id or same_run or one.epoch
        same = [run for run in runs if run.number == one.number and (run.run_id or same_run or run.epoch) == key]
        if same:
            same[0].join(one)
        else:
            runs.append(one)
    if not same_run:
        runs = _linked(runs)
    for one in short:
        same = [run for run in runs if run.number == one.number and run.run_id.startswith(one.run_id)]
        if len(same) == 1:
            same[0].join(one)
        else:
            runs.append(one)
    return sorted(runs, key=lambda run: (run.number, run.begun_unix_ns, run.epoch, run.run_id)), unusable


def _linked(runs):
    """Joins runs without an id whose files are linked by the epochs of their records (FILE-61)."""
    numbers = Counter(run.number for run in runs if not run.run_id)
    result, with_epochs = [], []
    for run in runs:
        if run.run_id or numbers[run.number] == 1:
            result.append(run)
            continue
        epochs = set()
        for path in run.files:
            with EventFile(path) as file:
                epochs |= {file.header.epoch} | {entry.epoch for entry in file.index()}
        linked = [one for one in with_epochs if one[0].number == run.number and one[1] & epochs]
        for other, more in linked:
            other.join(run)
            run, epochs = other, epochs | more
            with_epochs.remove((other, more))
        with_epochs.append((run, epochs))
    return result + [run for run, _ in with_epochs]


def utc_text(unix_ns):
    """A time in UTC with nanoseconds, such as 2026-05-04T10:11:12.000000345Z; "unknown" for 0."""
    if not unix_ns:
        return "unknown"
    seconds, rest = divmod(unix_ns, 10**9)
    time = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    return "%s.%09dZ" % (time.isoformat(), rest)


def _list_of(causes):
    return ", ".join("source %d" % one + ("" if why == "unknown" else " (%s)" % why) for one, why in causes.items())


def _state(event):
    state = "INCOMPLETE, missing " + _list_of(event.missing_causes) if event.missing else "complete"
    return state + ("; absent " + _list_of(event.absent_causes) if event.absent else "")


_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _say(text, file=None):
    """Prints a line; control characters, which could command the terminal, are escaped."""
    print(_CONTROL.sub(lambda found: "\\x%02x" % ord(found[0]), str(text)), file=file)


def _shown(text):
    """A text of a file without control characters, which could forge a line, and at most 500 characters of it."""
    return re.sub("[\x00-\x1f\x7f-\x9f]", "", text)[:500]


def _print_head(file):
    header = file.header
    who = "merged" if header.builder is None else "builder %d" % header.builder
    if header.builder in header.builder_names:
        who += " (%s)" % _shown(header.builder_names[header.builder])
    run = "run %d" % header.run + (" (%s)" % header.run_id[:8] if header.run_id else "")
    _say("%s: %s, epoch %d, %s, file %d, %d B, format %d, index %s, by %s" % (
        file.path, run, header.epoch, who, header.sequence, file.size, header.version, file.index_state,
        _shown(header.creator) or "a program that it does not name"))
    if file.recovered:
        _say("! the header is damaged; recovered from %s; `evbd merge` makes a file with a whole header" % _ORIGINS[file.recovered])
    if header.begun_unix_ns:
        _say("run begun %s%s" % (utc_text(header.begun_unix_ns), _OF_CLOCK.get(header.clock, "")))
    for what, text in (("kind", header.kind), ("comment", header.comment)):
        if text:
            _say("%s: %s" % (what, _shown(text)))
    names = {one: _shown(name) for one, name in header.source_names.items()}
    _say("sources: " + " ".join("%d (%s)" % (one, names[one]) if one in names else "%d" % one for one in header.sources))
    for one in file.changes:
        what, why = "excluded" if one.excluded else "included", one.why and " (%s)" % _shown(one.why)
        _say("source %d is %s from event %d on%s" % (one.source, what, one.from_event, why))


_OF_CLOCK = {
    "synchronised": " (supervisor's clock: synchronised)",
    "not synchronised": " (supervisor's clock: not synchronised, so UTC in this file may be off)",
}

_ORIGINS = {
    "closing block": "the closing block, so nothing is lost",
    "records": "its records, so kind, comment and names are lost, but no event",
}


def _print_list(file, epochs):
    _say("%12s %7s %9s %12s %12s  state" % ("event", "epoch", "fragments", "payload", "offset"))
    for item in file.scan(payloads=False):
        if isinstance(item, Damaged):
            _say("! %s %s; other events can be read; %s" % (file.path, item, item.remedy))
            continue
        if not epochs[0] <= item.epoch <= epochs[1]:
            continue
        size = sum(part.length for part in item.fragments)
        row = (item.id, item.epoch, len(item.fragments), size, item.offset, _state(item))
        _say("%12d %7d %9d %12d %12d  %s" % row)


def _print_event(event, with_bytes):
    _say("event %d, run %d%s, epoch %d, builder %d, triggered %d ns, UTC %s, %s" % (
        event.id, event.run, " (%s)" % event.run_id if event.run_id else "", event.epoch, event.builder,
        event.triggered_ns, utc_text(event.utc_ns), _state(event)))
    for part in event.fragments:
        state = "" if part.alignment == ALIGNMENTS[0] else ", alignment with other sources: " + part.alignment
        state += " (clock not learnt yet, or alone)" if part.alignment == ALIGNMENTS[3] else ""
        _say("source %d, %d B, timestamp %d, crc %016x%s" % (part.source, part.length, part.timestamp, part.crc, state))
        for at in range(0, part.length if with_bytes else 0, 16):
            row = part.payload[at : at + 16]
            text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
            _say("  %08x  %-48s |%s|" % (at, "".join("%02x " % byte for byte in row), text))
    if any(part.alignment != ALIGNMENTS[0] for part in event.fragments):
        _say("alignment tells whether the timestamp of a fragment agrees with those of the other sources; it is not known while the"
             " clock of the source was still being learnt, or if no other clock was there")


class _Tally:
    """Counts the events of one run; of several copies, the one of the highest epoch counts."""

    def __init__(self, epochs):
        self.epochs = epochs
        self.clean, self.payload, self.superseded, self.records = True, 0, 0, set()
        self.counted = {}
        """For each event the epoch of its copy that counts, what it lacks (None for a whole event), and whether it is
        aligned."""

    def add(self, file):
        """Reads a file to its end, and prints what is wrong with it."""
        self.clean = self.clean and file.index_state != "damaged" and not file.recovered
        if file.index_state == "damaged":
            _say("! the checksum of the index is wrong%s" % _BY_SCAN)
        entries = []
        for item in file.scan():
            if isinstance(item, Damaged):
                self.clean, entries = False, None
                kind = "torn tail of %d B, as the builder was stopped while it wrote" if item.torn else "damage of %d B"
                _say("! %s %s (%s); other events can be read; %s" % (file.path, item, kind % item.length, item.remedy))
            else:
                self._event(item)
                if entries is not None:
                    entries.append(IndexEntry(item.id, item.epoch, item.offset))
        if entries is not None and file.index_state == "present" and sorted(entries) != file.told_index():
            self.clean = False
            _say("! the index does not match the records of the file%s" % _BY_SCAN)

    def _event(self, event):
        if not self.epochs[0] <= event.epoch <= self.epochs[1]:
            return
        self.payload += sum(part.length for part in event.fragments)
        if (event.id, event.epoch) in self.records:
            self.clean = False
            _say("! event %d of epoch %d is there again at byte %d: its first copy counts; `evbd merge` keeps one copy of each event" % (event.id, event.epoch, event.offset))
            return
        self.records.add((event.id, event.epoch))
        is_lossy = any(part.lost_packets for part in event.fragments)
        lacks = None if event.whole else (event.missing_causes, event.absent_causes, _state(event), is_lossy)
        before = self.counted.get(event.id)
        self.superseded += before is not None
        if before is None or event.epoch > before[0]:
            self.counted[event.id] = (event.epoch, lacks, event.aligned)

    def finish(self):
        """Prints the totals, and returns whether all is clean."""
        absent, incomplete, lossy = Counter(), 0, 0
        for number, (_, lacks, _) in sorted(self.counted.items()):
            if lacks is not None and lacks[0]:
                incomplete += 1
                _say("! event %d: %s" % (number, lacks[2]))
            elif lacks is not None:
                absent.update(lacks[1].items())
                lossy += lacks[3]
        without = ["%d without source %d (%s)" % (count, *one) for one, count in sorted(absent.items())]
        without += ["%d with lost packets" % lossy] if lossy else []
        clean = self.clean and not incomplete
        events, misaligned = len(self.counted), sum(not aligned for _, _, aligned in self.counted.values())
        _say("%d events, %d complete%s, %d incomplete, %s%d superseded copies, %d B of payload: %s" % (
            events, events - incomplete, " (of these, %s)" % ", ".join(without) if without else "", incomplete,
            "%d misaligned, " % misaligned if misaligned else "", self.superseded, self.payload, "clean" if clean else "NOT CLEAN"))
        if incomplete:
            _say("incomplete events: their other fragments are intact, and can be used; before the next run, check the process, the front"
                 " end and the network of the missing sources, whose logs say more")
        if misaligned:
            _say("misaligned events: the timestamp of a fragment disagrees with those of the other sources, so it may belong to another"
                 " event; do not analyse these events before `evbd verify` has told which source slipped")
        if lossy:
            _say("lost packets: fragments of these events lack packets that did not reach their source, and all else of the events can be"
                 " used; before the next run, check the network before the sources, which `evbd verify` names")
        if self.superseded:
            _say("superseded copies: nothing needs to be done; another builder built these events again, and the newer copy of each counts")
        return clean


def _verify(runs, epochs):
    """Reads everything; prints what it counted, and returns whether it is clean."""
    clean = True
    for run in runs:
        tally = _Tally(epochs)
        for path in run.files:
            with EventFile(path) as file:
                _print_head(file)
                tally.add(file)
        clean = tally.finish() and clean
    for number in sorted({run.number for run in runs}):
        same = [run for run in runs if run.number == number]
        if len(same) > 1:
            clean = False
            _say("! several runs have the number %d: %s; choose one with --run, by the first digits of its id" % (number, ", ".join(map(str, same))))
    return clean


def _several(runs):
    """Why these runs cannot be read as one, and what to do."""
    unknown = Counter(run.number for run in runs if not run.run_id)
    shared = len({run.number for run in runs}) < len(runs)
    way_out = "choose one with --run, by %s" % ("the first digits of its id" if shared else "its number")
    if any(count > 1 for count in unknown.values()):
        way_out = "choose the records of one with --epoch A..B, from its first to its last epoch, or take them for one run with --same-run"
    return "the files are of %d runs: %s; %s" % (len(runs), ", ".join(map(str, runs)), way_out)


def _selected(runs, text):
    """The runs with that number, or with an id that begins with these digits, at least 4 (FILE-63)."""
    digits = text.lower()
    return [
        run
        for run in runs
        if (text.isdigit() and run.number == int(text)) or (len(digits) >= 4 and run.run_id.startswith(digits))
    ]


def _show_event(runs, number, epochs, with_bytes):
    found = None
    for path in runs[0].files:
        with EventFile(path) as file:
            try:
                event = file.event(number, epochs)
            except Damaged as damage:
                _say("%s %s; %s" % (path, damage, damage.remedy), file=sys.stderr)
                return 1
        if event is not None and (found is None or event.epoch > found.epoch):
            found = event
    if found is None:
        where = ", ".join(runs[0].files)
        _say("event %d is not in %s: give all files of the run, or another event id" % (number, where), file=sys.stderr)
        return 1
    _print_event(found, with_bytes)
    return 0


def _epochs(text):
    first, dots, last = text.partition("..")
    try:
        return int(first or 0), int(last or (1 << 64) - 1) if dots else int(first)
    except ValueError:
        raise argparse.ArgumentTypeError("%r is no range of epochs: give --epoch A..B, A.. or ..B, in numbers that the first line of each file shows as its epoch" % text) from None


def _arguments(arguments):
    parser = argparse.ArgumentParser(description="Reads event files of evb and checks their checksums.")
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a file, or a directory with its *.evb")
    parser.add_argument("--list", action="store_true", help="a line for each event")
    parser.add_argument("--event", type=int, metavar="N", help="one event")
    parser.add_argument("--hex", action="store_true", help="with --event: its bytes too")
    parser.add_argument("--run", metavar="RUN", help="only the run with this number, or with these first digits of its id")
    parser.add_argument("--same-run", action="store_true",
                        help="take all files of one run number that have no run id for one run")
    parser.add_argument("--epoch", type=_epochs, metavar="A..B",
                        help="only records of these epochs; files that have no run id are then one run")
    arguments = parser.parse_args(arguments)
    if arguments.hex and arguments.event is None:
        parser.error("--hex shows the bytes of one event: give --event N too")
    return arguments


def _told(error):
    """The words about a file that cannot be read, with what to do."""
    if isinstance(error, NotAnEventFile):
        return str(error)
    advice = {FileNotFoundError: "check the path", PermissionError: "give this user access to it"}.get(
        type(error), "check the disk, or read a copy of the file"
    )
    return "cannot read %s: %s (os error %s); %s" % (error.filename, error.strerror, error.errno, advice)


def main(arguments=None):
    arguments = _arguments(arguments)
    try:
        files = files_at(arguments.paths)
        runs, unusable = runs_of(files, arguments.same_run or arguments.epoch is not None)
        epochs = arguments.epoch or (0, (1 << 64) - 1)
        for _, error in unusable:
            _say(_told(error), file=sys.stderr)
        if not runs:
            if not unusable:
                at = ", ".join(arguments.paths)
                _say("no event files (*.evb) at %s; give the directory of a sink, or its files" % at, file=sys.stderr)
            return 2
        if arguments.run is not None:
            found, runs = runs, _selected(runs, arguments.run)
            if not runs:
                there = ", ".join(map(str, found))
                told = "none of the files is of run %s, but of %s: choose one of these, or give the files of run %s"
                _say(told % (arguments.run, there, arguments.run), file=sys.stderr)
                return 2
        if len(runs) > 1 and (arguments.run is not None or arguments.event is not None):
            _say(_several(runs), file=sys.stderr)
            return 2
        if arguments.event is not None:
            return _show_event(runs, arguments.event, epochs, arguments.hex)
        if arguments.list:
            for path in [path for run in runs for path in run.files]:
                with EventFile(path) as file:
                    _print_head(file)
                    _print_list(file, epochs)
            return 0
        return 0 if _verify(runs, epochs) and not unusable else 1
    except Damaged as damage:
        _say("%s; %s" % (damage, damage.remedy), file=sys.stderr)
        return 1
    except (NotAnEventFile, OSError) as error:
        _say(_told(error), file=sys.stderr)
        return 2


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        # The reader of a pipe (head, less) has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
