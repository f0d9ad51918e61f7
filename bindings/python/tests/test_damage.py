"""Damaged files: the findings are those of the Rust reader."""

import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from conftest import block_length, program, write

import evb

sys.path.insert(0, str(Path(__file__).parents[3] / "crates/evb-file/tests/python"))
import format2  # noqa: E402


def fnv_1a(data):
    """Return the 64-bit hash FNV-1a (RFC 9923)."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return value


STATES = [evb.alignment_text(code) for code in range(4)]


def ids(sources):
    return ",".join(map(str, sources)) or "-"


def code(cause):
    return next(code for code in range(256) if evb.cause_text(code) == cause)


def more(event):
    """What files of format 2 have besides, if it says something."""
    line = f" run_id={event.run_id}" if event.run_id else ""
    line += f" utc={event.utc_ns}" if event.utc_ns else ""
    if any(cause != "unknown" for cause in event.missing_causes.values()):
        line += f" causes={ids(map(code, event.missing_causes.values()))}"
    if event.absent:
        line += f" absent={','.join(f'{one}:{code(why)}' for one, why in event.absent_causes.items())}"
    return line


def header_more(file):
    line = f" run_id={file.id}" if file.id else ""
    line += f" begun={file.begin_ns}" if file.begin_ns else ""
    line += "" if file.clock_synchronised is None else f" clock={1 if file.clock_synchronised else 2}"
    for name in ("kind", "comment"):
        line += f" {name}={getattr(file, name).encode().hex()}" if getattr(file, name) else ""
    for name in ("source_names", "builder_names"):
        names = [f"{id}:{text.encode().hex()}" for id, text in getattr(file, name).items()]
        line += f" {name}={','.join(names)}" if names else ""
    return line + (f" recovered={file.recovered.replace(' ', '-')}" if file.recovered else "")


def event_lines(event):
    yield (
        f"event id={event.id} epoch={event.epoch} run={event.run} builder={event.builder}"
        f" triggered={event.triggered_ns} missing={ids(event.missing)}{more(event)}"
    )
    for part in event.fragments:
        yield (
            f"fragment source={part.source} timestamp={part.timestamp} size={len(part.payload)}"
            f" crc={part.checksum:016x} hash={fnv_1a(part.payload):016x}"
            + ("" if part.alignment == "not checked" else f" alignment={STATES.index(part.alignment)}")
        )


def finding_line(finding):
    event = "-" if finding.event is None else finding.event
    return (
        f"finding kind={finding.kind} offset={finding.offset} length={finding.length} event={event}"
        f" text={finding.text}"
    )


def listing(path, most):
    """Return the lines of a file in the format of evb-file's example `listing`: header, events."""
    yield f"file {path}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", evb.DamageWarning)
            file = evb.EventFile(path)
    except evb.FileError as error:
        yield f"error {error}"
        return
    builder = "all" if file.builder is None else file.builder
    yield (
        f"header run={file.run} epoch={file.epoch} builder={builder} sequence={file.sequence}"
        f" created={file.created_ns} size={file.size} index={file.index} sources={ids(file.sources)}"
        f" creator={file.creator.encode().hex()}{header_more(file)}"
    )
    yield "events"
    reader = file._native.batches(most)
    findings = []
    while (native := reader.next()) is not None:
        batch = evb.Batch(native, None)
        # Within a batch, records and findings are merged by their places in the file.
        items = list(zip(batch._column("records").cast("Q"), batch))
        for place, lines in sorted(
            [(place, list(event_lines(event))) for place, event in items]
            + [(finding.offset, [finding_line(finding)]) for finding in batch.findings],
            key=lambda item: item[0],
        ):
            yield from lines
        findings += map(finding_line, batch.findings)
    header = [file._native.header_finding()] if file.recovered else []
    assert list(map(finding_line, header)) + findings == list(map(finding_line, file.findings))


def damaged(data):
    """Yield the names and bytes of damaged files."""
    for place in range(0, len(data), 3):
        yield f"cut{place}", data[:place]
        yield f"flip{place}", data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]
        yield f"zeros{place}", data[:place] + bytes(len(data) - place)
        yield f"mark{place}", data[:place] + b"EVX2" + data[place + 4 :]
        yield f"more{place}", data + data[:place]
        yield f"other{place}", data + data[place:]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    write(folder, events=4)
    (path,) = folder.glob("*.evb")
    return path


@pytest.mark.parametrize("made_by", ["evb", "format2"])
def test_findings_equal_those_of_the_rust_reader(small, tmp_path, made_by):
    rust = program("EVB_LISTING")
    paths = []
    whole = small.read_bytes() if made_by == "evb" else format2.sample()
    for name, data in damaged(whole):
        paths.append(tmp_path / f"{name}.evb")
        paths[-1].write_bytes(data)
    names = tmp_path / "names"
    names.write_text("".join(f"{path}\n" for path in paths))
    told = subprocess.run([rust, f"@{names}"], capture_output=True, check=True, text=True).stdout
    expected, keep = [], True
    for line in told.splitlines():
        # Of the whole listing, these are the parts that the package can tell too.
        word = line.split(" ")[0]
        if word in ("file", "header", "error", "events"):
            keep = True
        elif word in ("heads", "unchecked", "verify"):
            keep = False
        if keep:
            expected.append(line)
    for most in (1, 1000):
        found = [line for path in paths for line in listing(str(path), most)]
        for mine, theirs in zip(found, expected):
            assert mine == theirs
        assert len(found) == len(expected)
    assert sum(line.startswith("finding") for line in expected) > len(paths) // 4


def test_damage_is_a_warning_and_reading_goes_on(small, tmp_path):
    path = tmp_path / "flipped.evb"
    data = bytearray(small.read_bytes())
    whole = evb.open(small)
    place = data.rindex(bytes(whole.event(3).fragment(2).payload))
    data[place] ^= 1
    path.write_bytes(data)
    file = evb.open(path)
    with pytest.warns(evb.DamageWarning, match="the checksum of the payload of source 2 is wrong"):
        ids = [event.id for event in file]
    assert ids == [event.id for event in whole if event.id != 3]
    (finding,) = file.findings
    assert (finding.kind, finding.event, finding.path) == ("damaged", 3, str(path))
    assert str(finding) == finding.text and len(file) == 4
    with pytest.raises(evb.FileError, match="event 3"):
        file.event(3)
    position = [event.id for event in whole].index(3)
    with pytest.raises(evb.FileError, match="event 3"):
        file[position]
    with warnings.catch_warnings():
        warnings.simplefilter("error", evb.DamageWarning)
        with pytest.raises(evb.DamageWarning):
            list(file)


def test_a_torn_tail_is_the_last_finding(small, tmp_path):
    path = tmp_path / "torn.evb"
    data = small.read_bytes()
    path.write_bytes(data[: -block_length(data, 4) - 8])
    file = evb.open(path)
    assert file.index == "absent" and len(file) == 3
    assert [(finding.kind, finding.event) for finding in file.findings] == [("torn_tail", 4)]
    with pytest.warns(evb.DamageWarning, match="torn tail"):
        assert len(list(file)) == 3
