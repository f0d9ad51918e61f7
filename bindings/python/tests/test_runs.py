"""Files of format 2, and of several runs: identity, causes, UTC, recovery, choice of a run."""

import json
import subprocess
import sys
import warnings
from datetime import datetime, timezone
from pathlib import Path

import pytest
from conftest import EVENTS, payload, write

import evb

sys.path.insert(0, str(Path(__file__).parents[3] / "crates/evb-file/tests/python"))
format2 = pytest.importorskip("format2", reason="the maker of files is not part of the package")


@pytest.fixture
def two(tmp_path):
    """A folder with two runs under one number."""
    (tmp_path / "run000007_b01_0000.evb").write_bytes(format2.sample())
    (tmp_path / "run000007_b02_0000.evb").write_bytes(format2.sample(4, run_id="0bad" * 8, builder=2))
    return tmp_path


@pytest.fixture
def sample(tmp_path):
    path = tmp_path / "run000007_b01_0000.evb"
    path.write_bytes(format2.sample())
    return path


def old(folder, builder, epoch, epochs):
    """Write a file without a run id, as a merge of format 1 does."""
    head = format2.header(run_id="0" * 32, epoch=epoch, builder=builder)
    records = [format2.record(head, place, {1: b"data"}, epoch=of) for place, of in enumerate(epochs, 1)]
    (folder / f"run000007_b{builder:02}_0000.evb").write_bytes(format2.file(head, records))


def test_a_file_tells_its_run(sample):
    file = evb.open(sample)
    assert (file.format, file.number, file.run, file.id) == (2, 7, 7, format2.RUN_ID)
    assert (file.kind, file.comment, file.sources) == ("physics", "beam on", [1, 2, 3])
    assert (file.source_names, file.builder_names) == ({1: "tracker", 3: "calorimètre"}, {1: "eb-1"})
    assert file.begin_ns == format2.BEGUN and file.clock_synchronised is True
    assert file.begin == datetime(2026, 9, 21, 14, 13, 20, tzinfo=timezone.utc)
    assert file.recovered is None and file.findings == []
    run = evb.open(sample.parent)
    assert (run.id, run.number, run.kind, run.begin) == (file.id, 7, "physics", file.begin)
    assert (run.source_names, run.builder_names) == (file.source_names, file.builder_names)


def test_events_say_what_they_lack_and_why(sample):
    file = evb.open(sample)
    for events in [list(file), list(file[:]), [file.event(id) for id in range(1, 7)]]:
        one, two, three, four = events[:4]
        assert (one.missing, one.missing_causes) == ((2, 3), {2: "down", 3: "cause 99"})
        assert not one.complete and not one.is_complete and not one.whole
        assert (two.missing, two.absent, two.absent_causes) == ((), (3,), {3: "excluded"})
        assert two.complete and two.is_complete and not two.whole
        assert (three.missing_causes, three.absent_causes) == ({1: "no readout"}, {2: "expendable"})
        assert four.complete and not four.whole and four.run_id == format2.RUN_ID
        assert [part.lost_packets for part in four.fragments] == [0, 7, 1]
        assert events[4].whole
        assert [event.utc_ns - format2.BEGUN for event in events] == [id * 1_000_003 for id in range(1, 7)]
        with pytest.raises(evb.NotFoundError, match="of source 2 .it is missing: down"):
            one.fragment(2)
        with pytest.raises(evb.NotFoundError, match="of source 3 .it is absent: excluded"):
            two.fragment(3)
        assert "missing 1 (no readout), absent 2 (expendable)" in repr(three)


GOLDEN_2 = Path(__file__).parents[2] / "c/tests/file/golden-2"
GOLDEN = GOLDEN_2 / "alignment"


def test_fragments_say_whether_they_belong_to_their_event(sample):
    file = evb.open(sample)
    for events in [list(file), file[:], [file.event(id) for id in range(1, 7)]]:
        assert [event.id for event in events if not event.aligned] == [4]
        assert [part.alignment for part in events[3].fragments] == ["agrees", "disagrees", "not known"]
        assert [part.aligned for part in events[3].fragments] == [True, False, None]
        assert [(part.alignment, part.aligned) for part in events[5].fragments] == [("not checked", None)] * 3
        assert events[3].fragment(2).aligned is False
    states = [evb.alignment_text(code) for code in (0, 1, 2, 3, 99)]
    assert states == ["not checked", "agrees", "disagrees", "not known", "not known"]


def test_golden_files_have_all_states():
    found = {(event.id, event.epoch): [part.alignment for part in event.fragments] for event in evb.open(GOLDEN)}
    assert found == {
        (1, 1): ["not checked"] * 3,
        (2, 1): ["agrees", "disagrees", "not known"],
        (3, 1): ["disagrees", "disagrees", "not checked"],
        (4, 1): ["agrees", "agrees", "disagrees"],
        (4, 2): ["agrees"] * 3,
        (5, 1): ["not known", "disagrees", "agrees"],
    }


def test_golden_files_have_the_changes_of_their_run():
    run = evb.open(GOLDEN_2 / "changes")
    assert run.changes == [
        evb.Change(2, True, 1, None, "broken"),
        evb.Change(2, False, 3, datetime(2025, 11, 13, 2, 13, 22, tzinfo=timezone.utc), ""),
        evb.Change(3, True, 4, datetime(2025, 11, 13, 2, 13, 23, tzinfo=timezone.utc), 'no "power", ν'),
    ]
    absent = {event.id: event.absent_causes for event in run}
    assert absent == {1: {2: "excluded"}, 2: {2: "excluded"}, 3: {}, 4: {3: "excluded"}}
    assert [len(file.changes) for file in run.files] == [1, 3, 2], "one file knows what was known when it was begun"


def test_only_aligned_events(sample):
    kept = [1, 2, 3, 5, 6]
    for file in [evb.open(sample, aligned=True), evb.open(sample.parent, aligned=True)]:
        assert [event.id for event in file] == [event.id for event in file[:]] == kept
        assert len(file) == 5 and file[3].id == 5 and file.event(5).id == 5
        assert sum(map(len, file.batches(2))) == 5
        with pytest.raises(evb.NotFoundError, match="event 4 .* not aligned .the timestamp of source 2 disagrees"):
            file.event(4)
        with pytest.raises(evb.NotFoundError, match="no event 7"):
            file.event(7)
    assert [event.id for event in evb.open(sample, aligned=False)] == [1, 2, 3, 4, 5, 6]
    assert [event.id for event in evb.open(sample, aligned=True, epoch=(6, 9))] == []
    # Event 4 was built again, and is aligned; its first copy is left out.
    golden = evb.open(GOLDEN, aligned=True)
    assert sorted((event.id, event.epoch) for event in golden) == [(1, 1), (4, 2)]
    assert golden.event(4).epoch == 2


def test_the_copy_that_counts_decides_whether_an_event_is_aligned(tmp_path):
    for builder, epoch, state in [(1, 5, 1), (2, 6, 2)]:
        head = format2.header(builder=builder)
        record = format2.record(head, 1, {1: b"data"}, epoch=epoch, alignment=state)
        (tmp_path / f"run000007_b{builder:02}_0000.evb").write_bytes(format2.file(head, [record]))
    assert evb.open(tmp_path).event(1).epoch == 6
    with pytest.raises(evb.NotFoundError, match="event 1 .* not aligned"):
        evb.open(tmp_path, aligned=True).event(1)


def test_standard_input_is_filtered(sample):
    script = "import evb; print([event.id for event in evb.open('-', aligned=True)])"
    output = subprocess.run([sys.executable, "-c", script], input=sample.read_bytes(), capture_output=True, check=True)
    assert output.stdout == b"[1, 2, 3, 5, 6]\n"


def test_columns_have_states_of_alignment(sample):
    pytest.importorskip("numpy")
    columns = next(evb.open(sample).batches()).columns()
    first = columns.first_fragment.tolist()
    assert columns.alignment[first[3] : first[4]].tolist() == [1, 2, 3]
    assert columns.alignment.sum() == 6 and len(columns.alignment) == len(columns.source)
    aligned = next(evb.open(sample, aligned=True).batches()).columns()
    assert aligned.event.tolist() == [1, 2, 3, 5, 6] and not aligned.alignment.any()


def test_utc_is_a_numpy_time(sample):
    np = pytest.importorskip("numpy")
    file = evb.open(sample)
    assert file[0].utc == np.datetime64("2026-09-21T14:13:20.001000003", "ns")
    columns = next(file.batches()).columns()
    assert columns.utc.dtype == "datetime64[ns]" and columns.utc.tolist() == [event.utc_ns for event in file]
    unknown = format2.header()
    sample.write_bytes(format2.file(unknown, [format2.record(unknown, 1, {1: b"x"}, utc=0)]))
    assert np.isnat(evb.open(sample)[0].utc)


def test_columns_have_causes(sample):
    pytest.importorskip("numpy")
    columns = next(evb.open(sample).batches()).columns()
    assert columns.missing.tolist() == [2, 3, 1] and columns.missing_cause.tolist() == [1, 99, 3]
    assert columns.absent.tolist() == [3, 2] and columns.absent_cause.tolist() == [16, 17]
    assert columns.first_missing.tolist() == [0, 2, 2, 3, 3, 3, 3]
    assert columns.first_absent.tolist() == [0, 0, 1, 2, 2, 2, 2]
    assert [evb.cause_text(code) for code in (1, 16, 99)] == ["down", "excluded", "cause 99"]


def test_arrow_has_causes(sample):
    pytest.importorskip("numpy")
    pytest.importorskip("pyarrow")
    rows = next(evb.open(sample).batches()).to_arrow().to_pylist()
    assert rows[0]["missing"] == [{"source": 2, "cause": 1}, {"source": 3, "cause": 99}]
    assert rows[1]["absent"] == [{"source": 3, "cause": 16}] and rows[1]["missing"] == []
    assert [part["alignment"] for part in rows[3]["fragments"]] == [1, 2, 3]
    assert rows[0]["utc_ns"] == format2.BEGUN + 1_000_003


def test_two_runs_with_one_number_are_not_mixed(two):
    for path in (two, [two], sorted(two.glob("*.evb"))):
        with pytest.raises(evb.RunsError) as raised:
            evb.open(path)
        for said in ("of 2 runs", "run 7 (5eedcafe, begun 2026-09-21T14:13:20", "run 7 (0bad0bad", "1 file)", "run="):
            assert said in str(raised.value)
        assert len(evb.open(path, run="5eedcafe")) == 6
        assert len(evb.open(path, run="0BAD")) == 4
        assert evb.open(path, run="0bad").id == "0bad" * 8
        with pytest.raises(evb.RunsError, match="of 2 runs"):
            evb.open(path, run=7)
        with pytest.raises(evb.RunsError, match="none of the files is of run 8, but of run 7"):
            evb.open(path, run=8)
    with pytest.raises(ValueError, match="at least 4 digits"):
        evb.open(two, run="5ee")
    one = min(two.glob("*.evb"))
    assert len(evb.open(one, run=7)) == 6
    with pytest.raises(evb.RunsError):
        evb.open(one, run="0bad")


def test_a_list_of_files_and_directories(two, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "run000008_b01_0000.evb").write_bytes(format2.sample(2, run=8, run_id="8" * 32))
    everything = [two, other]
    assert len(evb.open(everything, run=8)) == 2
    assert [len(file) for file in evb.open(everything, run="5eed").files] == [6]
    with pytest.raises(evb.RunsError, match="of 3 runs.*run 8"):
        evb.open(everything)
    with pytest.raises(FileNotFoundError):
        evb.open([two, tmp_path / "nothing"])
    with pytest.raises(FileNotFoundError):
        evb.open([])


def test_files_without_an_id_are_told_apart_by_epochs(tmp_path):
    old(tmp_path, 1, 100, [100, 200])
    old(tmp_path, 2, 200, [200, 300])
    assert len(evb.open(tmp_path)) == 4, "linked by the records of epoch 200"
    assert evb.open(tmp_path).id == ""
    old(tmp_path, 3, 900, [900])
    with pytest.raises(evb.RunsError, match=r"id unknown, epoch 100.*same_run=True"):
        evb.open(tmp_path)
    assert len(evb.open(tmp_path, same_run=True)) == 5
    chosen = evb.open(tmp_path, epoch=(200, 300))
    assert len(chosen) == 3 and [event.epoch for event in chosen] == [200, 200, 300]
    assert chosen.event(1).epoch == 200 and chosen[2].epoch == 300
    with pytest.raises(evb.NotFoundError):
        chosen.event(1, epoch=900)
    assert [len(batch) for batch in chosen.batches()] == [1, 2]
    (part,) = evb.open(min(tmp_path.glob("*.evb")), epoch=(200, 200)).batches()
    assert [(event.id, bytes(event.fragment(1).payload)) for event in part] == [(2, b"data")]


def test_a_damaged_header_is_recovered_with_a_warning(tmp_path):
    path = tmp_path / "run000007_b01_0000.evb"
    for close, where in ((True, "closing block"), (False, "records")):
        data = format2.sample(close=close)
        path.write_bytes(bytes(96) + data[96:])
        with pytest.warns(evb.DamageWarning, match="the header is damaged; recovered from"):
            file = evb.open(path)
        assert file.recovered == where
        (finding,) = file.findings
        assert (finding.kind, finding.path) == ("header", str(path))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert [event.id for event in file] == [1, 2, 3, 4, 5, 6]
        assert file.id == (format2.RUN_ID if close else format2.RUN_ID[:8] + "0" * 24)
    (tmp_path / "run000007_b02_0000.evb").write_bytes(format2.sample(builder=2))
    with pytest.warns(evb.DamageWarning):
        run = evb.open(tmp_path)
    assert run.id == format2.RUN_ID and len(run) == 12


def test_sections_of_later_versions(sample):
    head = format2.header(more=format2.section(900, b"later"))
    records = [format2.record(head, 1, {1: b"data"}, more=format2.section(900, b"later"))]
    sample.write_bytes(format2.file(head, records))
    assert bytes(evb.open(sample)[0].fragment(1).payload) == b"data"
    records.append(format2.record(head, 2, {1: b"data"}, more=format2.section(900, b"later", True)))
    sample.write_bytes(format2.file(head, records))
    with pytest.warns(evb.DamageWarning, match="its section 900 is required and needs a newer evb"):
        assert [event.id for event in evb.open(sample)] == [1]
    sample.write_bytes(format2.file(format2.header(more=format2.section(900, b"later", True)), []))
    with pytest.raises(evb.FileError, match="section 900 of its header is required and needs a newer evb"):
        evb.open(sample)


def test_a_source_that_slipped_is_put_right(tmp_path):
    """Event n has the fragment that source 2 should have sent with event n + 1, from event 20 on."""
    write(tmp_path, builders=2, size=lambda event, source: payload(event + (source == 2 and event >= 20), source))
    run = evb.open(tmp_path)
    assert run.alignment == []
    assert [event.id for event in run.realigned()] == list(range(1, EVENTS + 1))
    slip = {"source": 2, "since": 20, "kind": "slip", "shift": 1, "misaligned": True, "text": "missed 1 trigger"}
    beside = {"run": 7, "run_id": run.id, "builder": 1, "episodes": [slip]}
    (tmp_path / "run000007_b01.alignment.json").write_text(json.dumps(beside))

    run = evb.open(tmp_path)
    assert run.alignment == [evb.Episode(2, 20, None, "slip", 1, True, False, "missed 1 trigger")]
    for event in run.realigned():
        sources = [1] if event.id == 20 else [1, 2]
        assert [fragment.source for fragment in event.fragments] == sources
        assert event.missing == (() if event.id != 20 else (2,)) and event.aligned
        for fragment in event.fragments:
            assert fragment.payload == payload(event.id, fragment.source)
            moved = fragment.source == 2 and event.id > 20
            assert fragment.alignment == ("moved" if moved else "not checked")
