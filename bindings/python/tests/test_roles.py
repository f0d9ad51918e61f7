"""Sources and builders in Python, in one process and with the supervisor of evbd."""

import _thread
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import pytest
from conftest import Evbd

import evb


def test_all_kinds_of_payloads_arrive():
    np = pytest.importorskip("numpy")
    numbers = np.arange(10, dtype="<u2")
    payloads = [
        b"bytes",
        bytearray(b"bytearray"),
        memoryview(b"a memoryview")[2:],
        numbers,
        numbers[::2],
        np.asfortranarray(numbers.reshape(2, 5)),
        b"",
    ]
    with evb.LocalSystem(events=len(payloads)) as system:
        system.sources[0].push_many((event, data, 5) for event, data in enumerate(payloads, 1))
        numbers[:] = 0
        events = {event.id: event for event in system}
        assert system.finished()["events"]["complete"] == len(payloads)
    numbers = np.arange(10, dtype="<u2")
    expected = [b"bytes", b"bytearray", b"memoryview", *[x.tobytes() for x in (numbers, numbers[::2])]]
    expected += [numbers.tobytes(), b""]
    assert [events[event].fragments[0].payload for event in range(1, 8)] == expected
    assert events[4].fragment(1).view("<u2").tolist() == list(range(10))


def test_a_clock_that_cannot_be_is_refused_before_the_source_connects():
    wrong = [
        (evb.Clock("125 parsecs", 48), "clock: .*parsecs"),
        (evb.Clock("125 MHz"), "bits or wrap"),
        (evb.Clock("125 MHz", 48, wrap=3564), "bits or wrap"),
        (evb.Clock("125 MHz", 65), "1 to 64 bits"),
        (evb.Clock("125 MHz", 48, tolerance=-1e-9), "clock: .*not a possible time"),
        (evb.Clock("125 MHz", 48, accuracy_ppm=1e6), "accuracy"),
    ]
    for clock, says in wrong:
        with pytest.raises(ValueError, match=says):
            evb.Source("127.0.0.1:1", 1, start_timeout=0.1, clock=clock)
    with pytest.raises(evb.Error, match="127.0.0.1:1"):
        evb.Source("127.0.0.1:1", 1, start_timeout=0.1, clock=evb.Clock("40.079 MHz", wrap=3564))


def test_addresses_are_no_payload():
    np = pytest.importorskip("numpy")
    pointers = (ctypes.c_void_p * 2)(1, 2)
    records = np.zeros(2, dtype=[("a", "u4"), ("b", "O")])
    with evb.LocalSystem(events=1) as system:
        for payload in [np.array(["a", None], dtype=object), records, pointers]:
            with pytest.raises(TypeError, match="addresses of this process"):
                system.sources[0].push(1, payload)
            with pytest.raises(TypeError, match="addresses of this process"):
                system.sources[0].push_many([(1, payload, 0)])
        # Names of fields say nothing about their contents.
        system.sources[0].push(1, np.zeros(2, dtype=[("O", "u4"), ("P", "u4")]))
        assert [event.fragments[0].payload for event in system] == [bytes(16)]


def test_a_forked_child_gets_errors_and_harms_nobody():
    with evb.LocalSystem(events=20) as system:
        (source,) = system.sources
        source.push(1, b"before")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            signal.alarm(20)
            uses = [
                lambda: source.push(2, b"of the child"),
                lambda: source.push_many([(2, b"of the child", 0)]),
                lambda: next(iter(system)),
                system.finished,
                evb.LocalSystem,
                lambda: evb.Source("127.0.0.1:7000", 1),
            ]
            refused = 0
            for use in uses:
                try:
                    use()
                except evb.Error as error:
                    refused += "forked" in str(error)
            os._exit(refused)
        _, status = os.waitpid(child, 0)
        assert os.WEXITSTATUS(status) == 6
        source.push_many((event, b"of the parent", 0) for event in range(2, 21))
        assert [event.fragments[0].payload for event in system][1:] == [b"of the parent"] * 19
        assert system.finished()["events"]["complete"] == 20


def test_a_callback_gets_every_event():
    seen = []
    with evb.LocalSystem(2, 2, seen.append, events=100) as system:
        for source in system.sources:
            source.push_many((event, b"data", event) for event in range(1, 101))
        assert system.finished()["verdict"] == "100 of 100 assigned events complete"
        assert list(system) == []
    assert sorted(event.id for event in seen) == list(range(1, 101))
    assert {event.builder for event in seen} == {1, 2}


def test_events_that_nobody_takes_wait_up_to_a_limit():
    count, payload, pushed = 4000, bytes(100_000), 0

    def push(source):
        nonlocal pushed
        for event in range(1, count + 1):
            source.push(event, payload)
            pushed = event

    with evb.LocalSystem(events=count) as system:
        pushing = threading.Thread(target=push, args=system.sources)
        pushing.start()
        before = -1
        while before < pushed:
            before = pushed
            time.sleep(1)
        # Beside the 64 events for the iterator, there are the slots and a backlog of 256 MiB.
        assert 64 < pushed < count
        assert sum(1 for _ in system) == count
        pushing.join()
        assert system.finished()["events"]["complete"] == count


def test_an_exception_of_a_callback_loses_the_event_and_is_raised():
    def refuse(event):
        if event.id == 3:
            raise KeyError("no room for three")

    with evb.LocalSystem(sink=refuse, events=5) as system:
        system.sources[0].push_many((event, b"data", 0) for event in range(1, 6))
        with pytest.raises(KeyError, match="no room for three"):
            system.finished()
        report = system.finished()
    assert (report["events"]["complete"], report["events"]["lost"]) == (4, 1)
    assert any("no room for three" in problem for problem in report["problems"])


def test_external_triggers_and_the_end_of_a_run():
    with evb.LocalSystem(trigger="external") as system:
        system.trigger(3)
        system.sources[0].push_many((event, b"data", 0) for event in range(1, 4))
        system.request_run_end()
        assert sorted(event.id for event in system) == [1, 2, 3]
        assert system.sources[0].finished().exit_code == 0
        with pytest.raises(evb.EndedError):
            for event in range(4, 10_000):
                system.sources[0].push(event, b"late")


def test_refused_fragments_and_wrong_arguments():
    with evb.LocalSystem(max_fragment=100) as system:
        source = system.sources[0]
        with pytest.raises(evb.PushError, match="100 B"):
            source.push(1, bytes(101))
        with pytest.raises(evb.PushError) as refused:
            source.push_many([(1, b"good", 0), (0, b"no such event", 0), (2, b"good", 0)])
        assert refused.value.pushed == 1
        with pytest.raises(TypeError):
            source.push(1, "text has no bytes")
        with pytest.raises(OverflowError):
            source.push(-1, b"")
    for arguments in [{"trigger": "nonsense"}, {"trigger": "poisson"}, {"trigger": "periodic", "rate": "2 kg"}]:
        with pytest.raises(ValueError):
            evb.LocalSystem(**arguments)
    with pytest.raises(evb.Error):
        evb.LocalSystem(0, 1)


def test_waiting_calls_let_other_threads_run():
    with evb.LocalSystem() as system:
        waiting = threading.Thread(target=lambda: list(system), daemon=True)
        waiting.start()
        finishing = threading.Thread(target=system.finished, daemon=True)
        finishing.start()
        turns, until = 0, time.monotonic() + 0.3
        while time.monotonic() < until:
            turns += 1
        assert turns > 1000 and waiting.is_alive() and finishing.is_alive()
        system.request_run_end()
        system.sources[0].push_many((event, b"", 0) for event in range(1, 1000))
        finishing.join(20)
        assert not finishing.is_alive()


WAITS = """
import evb, sys
with evb.LocalSystem(trigger="external", max_fragment=1 << 20) as system:
    source = system.sources[0]
    print("begun", flush=True)
    try:
        if sys.argv[1] == "push":
            for event in range(1, 10_000):
                source.push(event, bytes(1 << 20))
        elif sys.argv[1] == "next":
            next(iter(system))
        else:
            system.finished()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.mark.parametrize("call", ["push", "next", "finished"])
def test_ctrl_c_ends_a_waiting_call(call):
    process = subprocess.Popen([sys.executable, "-c", WAITS, call], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "begun\n"
        time.sleep(2.0)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=5)[0] == "interrupted\n"
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()


def test_ctrl_c_at_the_end_of_the_block_aborts_a_source():
    with evb.LocalSystem(trigger="external") as system:
        threading.Timer(0.5, _thread.interrupt_main).start()
        with pytest.raises(KeyboardInterrupt), system.sources[0] as source:
            source.push(1, b"data")
        until = time.monotonic() + 5
        with pytest.raises(evb.EndedError):
            while time.monotonic() < until:
                source.push(2, b"data")


SYSTEM = """
[run]
events = 200
[supervisor]
listen = "127.0.0.1:{port}"
trigger = "as-fast-as-possible"
[[source]]
ids = "1-2"
bind = "127.0.0.1"
input = {{ kind = "generator", size = "10 B" }}
[[builder]]
id = 1
listen = "127.0.0.1:{other}"
sink = "null"
{more}
"""


@pytest.mark.parametrize("protected", [False, True])
def test_a_source_and_a_builder_join_the_run_of_evbd(tmp_path, free_ports, protected):
    port, other, _ = free_ports
    key, more = None, ""
    if protected:
        key = tmp_path / "key"
        key.write_text("00112233445566778899aabbccddeeff" * 2 + "\n")
        key.chmod(0o600)
        more = f'[security]\nmode = "psk"\nkey_file = "{key}"\n'
    text = SYSTEM.format(port=port, other=other, more=more)
    with Evbd(tmp_path, text, "--role", "supervisor", "--role", "source:2") as evbd:
        address = f"127.0.0.1:{port}"
        found = []
        builder = evb.Builder(address, 1, listen=f"127.0.0.1:{other}", key_file=key)
        reading = threading.Thread(target=lambda: found.extend(builder))
        reading.start()
        with evb.Source(address, 1, key_file=key) as source:
            assert source.first_event == 1
            source.push_many((event, bytes([event]), event * 10) for event in range(1, 201))
        reading.join(20)
        assert builder.finished().exit_code == 0
        assert source.finished() == builder.finished()
        assert evbd.process.wait(20) == 0
    assert sorted(event.id for event in found) == list(range(1, 201))
    for event in found:
        assert event.is_complete and event.fragment(1).payload == bytes([event.id])
        assert event.fragment(1).timestamp == event.id * 10 and len(event.fragment(2).payload) == 10
    if protected:
        with pytest.raises(evb.Error, match="key"):
            evb.Source(address, 1, key_file=tmp_path / "no key")


def test_an_exception_in_the_block_aborts_a_source(tmp_path, free_ports):
    port, other, _ = free_ports
    text = SYSTEM.format(port=port, other=other, more="")
    with Evbd(tmp_path, text, "--role", "supervisor", "--role", "source:2"):
        builder = evb.Builder(f"127.0.0.1:{port}", 1, listen=f"127.0.0.1:{other}")
        with pytest.raises(ZeroDivisionError), evb.Source(f"127.0.0.1:{port}", 1) as source:
            raise ZeroDivisionError
        with pytest.raises(evb.Error, match="aborted"):
            source.finished()
        builder.abort()


def test_an_unreachable_supervisor_is_named(free_ports):
    address = f"127.0.0.1:{free_ports[0]}"
    for role in [evb.Source, evb.Builder]:
        begun = time.monotonic()
        with pytest.raises(evb.Error, match=address):
            role(address, 1, start_timeout=0.5)
        assert time.monotonic() - begun < 5
    with pytest.raises(ValueError):
        evb.Source(address, 1, start_timeout=-1.0)
