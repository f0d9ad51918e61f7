"""Reading: events, positions, batches, and memory that is not copied."""

import gc
import os
import pathlib
import signal
import subprocess
import sys
import warnings

import pytest
from conftest import EVENTS, SOURCES, block_length, payload, write

import evb


def check(event):
    assert event.is_complete and event.run == 7 and event.missing == ()
    assert [fragment.source for fragment in event.fragments] == [1, 2]
    for fragment in event.fragments:
        assert fragment.payload == payload(event.id, fragment.source)
        assert fragment.payload.readonly
        assert fragment.timestamp == event.id * 100 + fragment.source


def test_a_file_is_a_sequence_of_events(path):
    file = evb.open(path)
    events = list(file)
    assert len(file) == len(events) == EVENTS
    for event in events:
        check(event)
    ids = [event.id for event in events]
    assert [file[position].id for position in range(EVENTS)] == ids
    assert file[-1].id == ids[-1]
    assert [event.id for event in file[10:20:3]] == ids[10:20:3]
    check(file.event(13))
    assert file.event(13, epoch=file.epoch).id == 13
    assert (file.run, file.builder, file.sequence, file.sources) == (7, 1, 0, [1, 2])
    assert file.index == "present" and file.size == path.stat().st_size
    assert file.findings == []


def test_a_directory_is_the_sequence_of_its_files(folder):
    run = evb.open(folder)
    assert isinstance(run, evb.EventFiles) and len(run.files) == 2
    ids = [event.id for event in run]
    assert sorted(ids) == list(range(1, EVENTS + 1))
    assert [run[position].id for position in range(len(run))] == ids
    assert run[-1].id == ids[-1] and run[-len(run)].id == ids[0]
    assert [event.id for event in run[20:30]] == ids[20:30]
    for id in ids:
        check(run.event(id))
    assert run.findings == []


def test_paths_of_every_kind(path, folder):
    name = os.fspath(path)
    for same in [name, os.fsencode(name), pathlib.Path(name)]:
        assert len(evb.open(same)) == len(evb.open([same])) == EVENTS
    assert evb.open(os.fsencode(folder)).path == os.fspath(folder)


def test_a_run_has_more_files_than_a_process_may_open_at_first(path, tmp_path):
    for number in range(100):
        os.link(path, tmp_path / f"run000007_b01_{number:04}.evb")
    program = "import evb, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (50, 1000)); print(len(evb.open(sys.argv[1]).files))"
    found = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True)
    assert found.stdout == "100\n", found.stderr


def test_the_absent_is_named(path, folder, tmp_path):
    for opened in [evb.open(path), evb.open(folder)]:
        with pytest.raises(evb.NotFoundError, match="there is no event 999"):
            opened.event(999)
        with pytest.raises(evb.NotFoundError):
            opened.event(-1)
        with pytest.raises(evb.NotFoundError, match="of epoch 3"):
            opened.event(1, epoch=3)
        for position in [EVENTS, -EVENTS - 1]:
            with pytest.raises(IndexError, match=f"has {EVENTS} events"):
                opened[position]
        assert opened[EVENTS:] == []
    with pytest.raises(LookupError, match="no fragment of source 9 .*have one, here: 1, 2"):
        evb.open(path).event(1).fragment(9)
    with pytest.raises(FileNotFoundError):
        evb.open(tmp_path / "nothing.evb")
    with pytest.raises(FileNotFoundError, match="no event files"):
        evb.open(tmp_path)
    (tmp_path / "text.evb").write_text("this is not an event file")
    with pytest.raises(evb.FileError, match="not an event file"):
        evb.open(tmp_path / "text.evb")


@pytest.mark.parametrize("how", ["file", "pipe"])
def test_standard_input_is_read(path, how):
    script = "import evb; print([event.id for event in evb.open('-')], evb.open.__doc__ is not None)"
    command = [sys.executable, "-c", script]
    if how == "file":
        with path.open("rb") as file:
            output = subprocess.run(command, stdin=file, capture_output=True, check=True)
    else:
        output = subprocess.run(command, input=path.read_bytes(), capture_output=True, check=True)
    assert output.stdout.decode().split("]")[0][1:].split(", ") == [str(event.id) for event in evb.open(path)]


def test_payloads_outlive_everything_else(path):
    fragments = [fragment for event in evb.open(path) for fragment in event.fragments]
    one = evb.open(path)[5]
    gc.collect()
    assert [bytes(fragment.payload) for fragment in fragments] == [
        payload(event.id, source) for event in evb.open(path) for source in (1, 2)
    ]
    check(one)


@pytest.mark.parametrize("closed", [True, False])
def test_columns_are_views(path, tmp_path, closed):
    np = pytest.importorskip("numpy")
    copy = tmp_path / "copy.evb"
    data = path.read_bytes()
    copy.write_bytes(data if closed else data[: -block_length(data, EVENTS)])
    file = evb.open(copy)
    assert file.index == ("present" if closed else "absent")
    batches = list(file.batches(20))
    assert [len(batch) for batch in batches] == [20, 20, 10]
    seen = []
    for batch in batches:
        columns = batch.columns()
        events = len(columns.event)
        assert columns.first_fragment.tolist() == list(range(0, events * SOURCES + 1, SOURCES))
        assert columns.first_missing.tolist() == [0] * (events + 1) and len(columns.missing) == 0
        assert columns.source.tolist() == [1, 2] * events
        assert (columns.builder == 1).all() and len(set(columns.epoch.tolist())) == 1
        for array in columns:
            assert array.base is not None and not array.flags.writeable and not array.flags.owndata
        for row, id in enumerate(columns.event.tolist()):
            for part in range(int(columns.first_fragment[row]), int(columns.first_fragment[row + 1])):
                begin, length = int(columns.offset[part]), int(columns.length[part])
                wanted = payload(id, int(columns.source[part]))
                assert columns.data[begin : begin + length].tobytes() == wanted
                assert columns.timestamp[part] == id * 100 + columns.source[part]
            seen.append(id)
        for event in batch:
            check(event)
            data = np.frombuffer(batch.data, np.uint8)
            for fragment in event.fragments:
                view = fragment.view("<u2")
                assert view.base is not None and not view.flags.writeable
                assert view.nbytes == 0 or np.shares_memory(view, data)
    assert seen == [event.id for event in file]
    assert batches[0].columns() is batches[0].columns()


def zeros(path):
    path.write_bytes(bytes(4096))


def other_text(path):
    path.write_text("notes")


def link_to_nothing(path):
    path.symlink_to("nowhere")


@pytest.mark.parametrize(
    "make", [zeros, other_text, link_to_nothing, pathlib.Path.mkdir, os.mkfifo, pathlib.Path.touch]
)
def test_a_bad_file_costs_only_itself_and_is_named(tmp_path, make):
    write(tmp_path, events=5)
    bad = tmp_path / "run000001_b01_9999.evb"
    make(bad)
    with pytest.warns(evb.DamageWarning, match=bad.name):
        files = evb.open(tmp_path)
    assert len(files) == 5 and len(files.unreadable) == 1 and bad.name in files.unreadable[0]


@pytest.mark.parametrize("make", [zeros, link_to_nothing, pathlib.Path.mkdir, os.mkfifo])
def test_a_bad_file_that_is_alone_is_named(tmp_path, make):
    bad = tmp_path / "run000001_b01_9999.evb"
    make(bad)
    with pytest.raises(evb.FileError, match=bad.name):
        evb.open(tmp_path)


def test_a_view_needs_whole_values(path):
    pytest.importorskip("numpy")
    fragment = evb.open(path).event(3).fragment(1)
    with pytest.raises(ValueError, match="6 bytes are not a whole number of 4-byte values"):
        fragment.view("<u4")
    assert fragment.view("u1").tolist() == list(payload(3, 1))
    assert evb.open(path).event(10).fragment(1).view("<u8").shape == (0,)


@pytest.mark.parametrize("kind", ["O", [("a", "O"), ("b", "u8")], [("a", [("b", "O")])]])
def test_a_view_never_takes_bytes_for_objects(path, kind):
    pytest.importorskip("numpy")
    for event in evb.open(path):
        for fragment in event.fragments:
            with pytest.raises(TypeError, match="no Python objects"):
                fragment.view(kind)


def test_batches_take_no_memory_of_their_own(tmp_path):
    pytest.importorskip("numpy")
    block = bytes(1 << 20)
    write(tmp_path, events=100, size=lambda event, source: block)
    script = """
import evb, sys
def test_a_forked_process_reads_on(tmp_path):
    write(tmp_path, events=6000, size=lambda event, source: bytes(200))
    (file,) = tmp_path.glob("*.evb")
    batches = evb.open(file).batches(500)
    before = len(next(batches))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        signal.alarm(30)
        os._exit(0 if sum(map(len, batches)) == 6000 - before else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    assert sum(map(len, batches)) == 6000 - before


def resident(what):
    for line in open('/proc/self/status'):
        if line.startswith(what):
            return int(line.split()[1])
opened = evb.open(sys.argv[1])
[batch.columns() for batch in opened.batches(1)][:0]
before = resident('RssAnon')
total = 0
for batch in opened.batches(8):
    total += int(batch.columns().data[::4096].sum()) * 0 + int(batch.columns().length.sum())
print(total, resident('RssAnon') - before, resident('VmRSS'))
"""
    output = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, check=True, text=True)
    total, grown, resident = map(int, output.stdout.split())
    assert total == 200 << 20
    assert grown < 8 << 10, "kB of private memory: the 200 MiB of payloads were copied"
    assert resident < 150 << 10, "kB: batches that were read stay in resident memory"


def test_without_numpy(path):
    script = """
import sys
sys.modules['numpy'] = None
sys.modules['pyarrow'] = None
import evb
file = evb.open(sys.argv[1])
print(sum(len(fragment.payload) for event in file for fragment in event.fragments), file[3].id)
for call in [lambda: next(file.batches()).columns(), lambda: file[3].fragment(1).view('<u2')]:
    try:
        call()
    except ImportError as error:
        print(error)
"""
    output = subprocess.run([sys.executable, "-c", script, path], capture_output=True, check=True, text=True)
    lines = output.stdout.splitlines()
    assert int(lines[0].split()[0]) == sum(len(payload(event, 1)) * 2 for event in range(1, EVENTS + 1))
    assert len(lines) == 3 and all("pip install numpy" in line for line in lines[1:])


def test_arrow_refers_to_the_batch(path):
    pytest.importorskip("numpy")
    pa = pytest.importorskip("pyarrow")
    batch = next(evb.open(path).batches())
    before = pa.total_allocated_bytes()
    table = batch.to_arrow()
    assert pa.total_allocated_bytes() - before < 4096
    rows = table.to_pylist()
    assert len(rows) == EVENTS
    for row, event in zip(rows, batch):
        assert (row["event"], row["builder"], row["epoch"], row["missing"]) == (event.id, 1, event.epoch, [])
        for found, fragment in zip(row["fragments"], event.fragments):
            assert (found["source"], found["timestamp"]) == (fragment.source, fragment.timestamp)
            assert bytes(found["payload"]) == fragment.payload


def test_awkward_recipe(path):
    np = pytest.importorskip("numpy")
    ak = pytest.importorskip("awkward")
    columns = next(evb.open(path).batches()).columns()
    data = ak.contents.NumpyArray(columns.data)
    starts = columns.offset.astype(np.int64)
    payloads = ak.contents.ListArray(
        ak.index.Index64(starts), ak.index.Index64(starts + columns.length), data
    )
    events = ak.Array(ak.contents.ListOffsetArray(ak.index.Index64(columns.first_fragment.astype(np.int64)), payloads))
    assert events[2, 0].to_list() == list(payload(int(columns.event[2]), 1))


def test_pandas_recipe(path):
    np = pytest.importorskip("numpy")
    pd = pytest.importorskip("pandas")
    columns = next(evb.open(path).batches()).columns()
    counts = np.diff(columns.first_fragment).astype(np.int64)
    frame = pd.DataFrame({"event": np.repeat(columns.event, counts), "source": columns.source, "length": columns.length})
    assert len(frame) == EVENTS * SOURCES
    assert frame[frame.event == 13].length.tolist() == [len(payload(13, source)) for source in (1, 2)]


def test_parquet_recipe(path, tmp_path):
    pytest.importorskip("numpy")
    pq = pytest.importorskip("pyarrow.parquet")
    batches = evb.open(path).batches(20)
    first = next(batches).to_arrow()
    with pq.ParquetWriter(tmp_path / "events.parquet", first.schema) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch.to_arrow())
    rows = pq.read_table(tmp_path / "events.parquet").to_pylist()
    assert [row["event"] for row in rows] == [event.id for event in evb.open(path)]
    assert [bytes(row["fragments"][1]["payload"]) for row in rows] == [payload(row["event"], 2) for row in rows]
