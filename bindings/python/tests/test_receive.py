"""Events that a builder hands over."""

import itertools
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import Evbd, content

import evb

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "handover"
SYSTEM = """
[run]
events = {events}
[supervisor]
listen = "127.0.0.1:{port}"
trigger = {{ kind = "periodic", rate = "{rate}" }}
[[source]]
ids = "1-2"
input = {{ kind = "generator", size = "500 B" }}
[[builder]]
id = 1
listen = "127.0.0.1:{builder}"
give_up = "2 s"
sink = [{{ kind = "socket", address = "{address}", timeout = "2 s" }}, {{ kind = "file", path = "{folder}/out" }}]
"""


def system(folder, ports, address, events=300, rate="1 kHz"):
    port, _, builder = ports
    return Evbd(folder, SYSTEM.format(port=port, builder=builder, folder=folder, address=address, events=events, rate=rate))


def test_each_event_is_that_of_the_files(tmp_path, free_ports):
    address = str(tmp_path / "consumer")
    with evb.receive(address) as events, system(tmp_path, free_ports, address) as evbd:
        taken = content(events)
        assert evbd.process.wait(20) == 0, evbd.log.read_text()
    assert len(taken) == 300 and taken == content(evb.open(tmp_path / "out"))
    # A consumer that has ended leaves its socket behind, and the next one takes it over.
    with evb.receive(address), pytest.raises(evb.Error, match="another program listens there"):
        evb.receive(address)


def test_events_are_acknowledged_only_when_done(tmp_path, free_ports):
    address = f"127.0.0.1:{free_ports[1]}"
    with system(tmp_path, free_ports, address, events=50) as evbd:
        with evb.receive(address) as first:
            seen = [event.id for event in itertools.islice(first, 5)]
        # The loop has not asked for more, so the last event was not acknowledged.
        with evb.receive(address) as consumer:
            kept = []
            for event in consumer.events():
                kept.append(event.id)
                consumer.done(event)
                consumer.done(event)
        assert evbd.process.wait(20) == 0, evbd.log.read_text()
    stored = [event.id for event in evb.open(tmp_path / "out")]
    assert seen == stored[:5] and kept == stored[4:]


def test_a_consumer_that_is_killed_loses_no_event(tmp_path, free_ports):
    address, lines = f"127.0.0.1:{free_ports[1]}", tmp_path / "lines"
    command = [sys.executable, str(EXAMPLES / "consumer.py"), address, str(lines)]
    kills = 0
    with system(tmp_path, free_ports, address, events=1500, rate="500 Hz") as evbd:
        while kills < 8:
            size = lines.stat().st_size if lines.exists() else 0
            with subprocess.Popen(command, stdout=subprocess.DEVNULL) as consumer:
                evbd.wait_for(lambda: lines.exists() and lines.stat().st_size > size)
                time.sleep(0.02)
                consumer.send_signal(signal.SIGKILL)
            kills += 1
        subprocess.run(command, check=True, timeout=60, stdout=subprocess.DEVNULL)
        assert evbd.process.wait(20) == 0, evbd.log.read_text()
    # A line that was cut off by a kill is not whole, and its event comes again.
    taken = [line.split() for line in lines.read_text().splitlines()]
    assert {int(line[1]) for line in taken if len(line) == 3} == {event.id for event in evb.open(tmp_path / "out")}
    assert len(evb.open(tmp_path / "out")) == 1500
    log = evbd.log.read_text()
    assert f"the consumer at {address} " in log, log


def test_a_program_that_is_no_builder_costs_nothing():
    with evb.receive("127.0.0.1:0") as consumer:
        host, _, port = consumer.address.rpartition(":")
        for said in [b"GET / HTTP/1.1\r\n\r\n", b"", struct.pack("<12xI", 8), os.urandom(64)]:
            with socket.create_connection((host, int(port))) as stranger:
                stranger.sendall(said)
        threading.Timer(0.5, consumer.close).start()
        assert not list(consumer)
