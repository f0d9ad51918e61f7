"""Makes event files of format 2 after docs/reference/file-format.md, without the code of evb.

Tests use it for files that evb never writes, such as files with sections of later versions.
"""

import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4] / "bindings/python"))
from evb_read import crc64  # noqa: E402

RUN_ID = "5eedcafe000102030405060708090a0b"
BEGUN = 1_790_000_000_000_000_000


def padded(data):
    return data + bytes(-len(data) % 8)


def section(kind, body, required=False):
    return struct.pack("<HHI", kind, int(required), len(body)) + padded(body)


def names(of):
    texts = ((number, name.encode()) for number, name in sorted(of.items()))
    return b"".join(struct.pack("<HH", number, len(text)) + text for number, text in texts)


def sealed(data):
    return data + struct.pack("<Q", crc64(data))


def header(
    run=7,
    run_id=RUN_ID,
    builder=1,
    sequence=0,
    sources=(1, 2, 3),
    flags=0,
    clock=1,
    epoch=5,
    version=2,
    creator="a test",
    kind="physics",
    comment="",
    source_names=None,
    builder_names=None,
    more=b"",
):
    ids = padded(struct.pack("<%dH" % len(sources), *sources))
    texts = (1, creator.encode()), (2, kind.encode()), (3, comment.encode())
    sections = b"".join(section(*one) for one in texts if one[1])
    for number, of in ((4, source_names), (5, builder_names)):
        if of:
            sections += section(number, names(of))
    length = 80 + len(ids) + len(sections) + len(more) + 8
    front = struct.pack("<8sHHIIHH", b"\x89EVB\r\n\x1a\n", version, flags, length, run, builder, 0)
    front += bytes.fromhex(run_id) + struct.pack("<QIIQQB7x", epoch, sequence, len(sources), BEGUN + 5, BEGUN, clock)
    return sealed(front + ids + sections + more)


def without(causes):
    return b"".join(struct.pack("<HBx", source, cause) for source, cause in sorted(causes.items()))


def record(
    head,
    event,
    payloads,
    missing=None,
    absent=None,
    epoch=5,
    utc=None,
    tag=0,
    lost=None,
    alignment=0,
    flags=None,
    builder=None,
    file_tag=None,
    run_id=None,
    more=b"",
):
    """The record of an event; payloads is {source: bytes}, alignment a state, or one for each fragment."""
    states = alignment if isinstance(alignment, tuple) else (alignment,) * len(payloads)
    run, own = struct.unpack_from("<IH", head, 16)
    table = b"".join(
        struct.pack("<HBBIQQ", source, state, 0, len(payload), event << 8 | source, crc64(payload))
        for (source, payload), state in zip(payloads.items(), states)
    )
    sections = section(1, without(missing), True) if missing else b""
    sections += section(2, without(absent), True) if absent else b""
    sections += section(3, struct.pack("<Q", tag)) if tag else b""
    sections += section(4, struct.pack("<%dI" % len(lost), *lost)) if lost else b""
    size = 72 + len(table) + len(sections) + len(more) + 8
    body = padded(b"".join(payloads.values()))
    front = struct.pack("<4sIQQQQ", b"EVR2", size, size + len(body), event, epoch, event * 1_000_003)
    front += struct.pack("<Q", BEGUN + event * 1_000_003 if utc is None else utc)
    front += head[-8:] if file_tag is None else file_tag
    front += struct.pack("<I", run) + (head[24:28] if run_id is None else bytes.fromhex(run_id)[:4])
    flags = int(bool(missing)) if flags is None else flags
    front += struct.pack("<HHI", own if builder is None else builder, flags, len(payloads))
    return sealed(front + table + sections + more) + body


def closing_block(head, records):
    """The closing block of a file that has this header and these records."""
    entries, at = [], len(head)
    for one in records:
        entries.append((*struct.unpack_from("<QQ", one, 16), at))
        at += len(one)
    block = struct.pack("<4sIQ", b"EVX2", 24, len(entries))
    block += b"".join(struct.pack("<QQQ", *entry) for entry in sorted(entries))
    return sealed(block + head + struct.pack("<Q", at)) + b"EVB-END\n"


def file(head, records, close=True):
    return head + b"".join(records) + (closing_block(head, records) if close else b"")


def payloads(event, count=3, size=10):
    return {source: bytes((event * 11 + source * 37 + byte) % 256 for byte in range(size * source)) for source in range(1, count + 1)}


def sample(events=6, close=True, **header_fields):
    """A file with events of all kinds."""
    head = header(comment="beam on", source_names={1: "tracker", 3: "calorimètre"}, builder_names={1: "eb-1"}, **header_fields)
    records = []
    for event in range(1, events + 1):
        kinds = [
            {},
            {"missing": {2: 1, 3: 99}},
            {"absent": {3: 16}},
            {"missing": {1: 3}, "absent": {2: 17}},
            {"tag": 0xABCDEF, "lost": (0, 7, 1), "alignment": (1, 2, 99)},
            {"more": section(900, b"of a later version")},
        ]
        fields = kinds[event % len(kinds)]
        gone = {**fields.get("missing", {}), **fields.get("absent", {})}
        parts = {source: data for source, data in payloads(event).items() if source not in gone}
        records.append(record(head, event, parts, **fields))
    return file(head, records, close)
