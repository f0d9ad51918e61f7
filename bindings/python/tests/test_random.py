"""Random types, shapes, buffers and threads: no input from Python may crash the interpreter, or change what is stored.

EVB_EXAMPLES says how many examples each test tries. pytest's faulthandler names the test in which the interpreter dies.
"""

import array
import contextlib
import ctypes
import os
import threading

import pytest

import evb

hypothesis = pytest.importorskip("hypothesis")
np = pytest.importorskip("numpy")

from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from hypothesis.extra import numpy as hnp  # noqa: E402

EXAMPLES = int(os.environ.get("EVB_EXAMPLES", "200"))
MANY = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))

KINDS = st.one_of(
    hnp.scalar_dtypes(),
    hnp.nested_dtypes(max_itemsize=400),
    hnp.byte_string_dtypes(),
    hnp.unicode_string_dtypes(),
    st.sampled_from(["O", "V0", "S0", object, "M8[ns]", "m8", [("a", "O")], [("a", "u1"), ("b", "(2,2)f4")], None, 3]),
    st.text(max_size=8),
)


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    """Events whose payloads have 0 to 599 bytes."""
    folder = tmp_path_factory.mktemp("random")
    with evb.LocalSystem(1, 1, folder, events=600) as system:
        system.sources[0].push_many((event, os.urandom(event - 1), event) for event in range(1, 601))
        system.finished()
    return list(evb.open(folder))


@MANY
@given(size=st.integers(0, 599), kind=KINDS)
def test_a_view_is_the_bytes_or_an_error(events, size, kind):
    fragment = events[size].fragments[0]
    try:
        view = fragment.view(kind)
    except (TypeError, ValueError, SyntaxError, OverflowError):
        return
    assert not view.flags.writeable and not view.dtype.hasobject
    # NumPy itself cannot show characters and dates that do not exist.
    with contextlib.suppress(SystemError, ValueError, OverflowError):
        repr(view)
    assert view.tobytes() == bytes(fragment.payload)


@st.composite
def buffers(draw):
    """Objects with the buffer protocol, of all layouts, and their bytes."""
    kind = draw(st.sampled_from(["array", "bytes", "bytearray", "memoryview", "array.array", "ctypes"]))
    if kind == "array":
        values = draw(hnp.arrays(hnp.scalar_dtypes(), hnp.array_shapes(min_dims=0, max_side=6)))
        if values.ndim:
            step = draw(st.sampled_from([1, 2, -1]))
            values = draw(st.sampled_from([values, values.T, values[::step], np.asfortranarray(values)]))
        return values
    data = draw(st.binary(max_size=300))
    if kind == "memoryview":
        return memoryview(data)[draw(st.integers(0, 10)) :: draw(st.sampled_from([1, 2, 3]))]
    if kind == "array.array":
        return array.array(draw(st.sampled_from("bBhHiIqQfd")), draw(st.lists(st.integers(0, 100), max_size=20)))
    if kind == "ctypes":
        return (ctypes.c_uint16 * len(data))(*data)
    return data if kind == "bytes" else bytearray(data)


@settings(MANY, max_examples=max(1, EXAMPLES // 20))
@given(payloads=st.lists(buffers(), min_size=20, max_size=20), threads=st.integers(1, 4))
def test_what_is_pushed_is_what_is_built(payloads, threads):
    expected, kept = [], []
    for payload in payloads:
        try:
            expected.append(memoryview(payload).tobytes())
        except (ValueError, BufferError):  # NumPy exports no times
            continue
        kept.append(payload)
    if not kept:
        return
    with evb.LocalSystem(1, 1, events=len(kept)) as system:
        (source,) = system.sources

        def push(first):
            for event in range(first, len(kept), threads):
                source.push(event + 1, kept[event])

        pushing = [threading.Thread(target=push, args=(first,)) for first in range(threads)]
        [thread.start() for thread in pushing]
        built = {event.id: event.fragments[0].payload for event in system}
        [thread.join() for thread in pushing]
    assert [bytes(built[event + 1]) for event in range(len(kept))] == expected


@MANY
@given(
    value=st.one_of(st.none(), st.integers(), st.floats(), st.text(), st.binary(max_size=20), st.lists(st.integers())),
    place=st.sampled_from(["event", "payload", "timestamp", "index", "id", "epoch", "path", "run"]),
)
def test_arguments_of_any_type_are_taken_or_refused(events, sink, value, place):
    source, folder = sink
    uses = {
        "event": lambda: source.push(value, b""),
        "payload": lambda: source.push(10_000_000_000, value),
        "timestamp": lambda: source.push(10_000_000_000, b"", value),
        "index": lambda: evb.open(folder)[value],
        "id": lambda: evb.open(folder).event(value),
        "epoch": lambda: events[0].fragment(value),
        "path": lambda: evb.open(value),
        "run": lambda: evb.open(folder, run=value),
    }
    try:
        uses[place]()
    except (evb.Error, TypeError, ValueError, LookupError, OverflowError, OSError, AttributeError):
        pass


@pytest.fixture(scope="module")
def sink(tmp_path_factory):
    """A source of a run without end, whose fragments nobody wants, and a folder with files."""
    folder = tmp_path_factory.mktemp("sink")
    with evb.LocalSystem(1, 1, folder, events=3) as system:
        system.sources[0].push_many((event, b"data", event) for event in range(1, 4))
        system.finished()
    system = evb.LocalSystem(trigger="external")
    yield system.sources[0], folder
    system.abort()
