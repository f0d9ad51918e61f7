"""Measures the package beside other programs: python3 speed.py FOLDER EVENTS EVBD TOOLS

Writes EVENTS events of 4 x 1 kB to FOLDER, and removes them in the end. Each ratio is the median of
rounds in which the two sides alternate. TOOLS is the folder of evb_read.py.
"""

import importlib.util
import logging
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import zmq

import evb

ROUNDS = 5
LARGE = bytes(range(256)) * 256
"""A fragment of 64 KiB."""
MESSAGES = 40_000


def write(folder, events):
    """Write event files of 4 x 1 kB."""
    payloads = [bytes((source * 31 + byte) % 256 for byte in range(1000)) for source in range(4)]
    step = 1000
    with evb.LocalSystem(4, 1, folder, events=events, max_fragment=1000) as system:
        for first in range(1, events + 1, step):
            for source, payload in zip(system.sources, payloads):
                source.push_many((event, payload, event) for event in range(first, min(first + step, events + 1)))
        assert system.finished()["events"]["complete"] == events


def dd(files):
    """Return the time in which dd reads the files."""
    begun = time.perf_counter()
    for file in files:
        subprocess.run(["dd", f"if={file}", "of=/dev/null", "bs=1M"], check=True, capture_output=True)
    return time.perf_counter() - begun


def batches(folder, events):
    """Return the time in which the package reads and checks all events."""
    begun = time.perf_counter()
    opened = evb.open(folder)
    found = payload = 0
    for batch in opened.batches():
        columns = batch.columns()
        found += len(columns.event)
        payload += int(columns.length.sum())
        assert columns.data.base is not None
    took = time.perf_counter() - begun
    assert (found, payload) == (events, 4000 * events)
    return took


def private_memory():
    """Return the private resident memory of this process, in kB."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def pure_python(file, tools, events):
    """Return the rate at which evb_read.py reads and checks events, in events/s."""
    sys.path.insert(0, str(tools))
    import evb_read

    begun = time.perf_counter()
    with evb_read.EventFile(file) as opened:
        for found, _ in enumerate(opened, 1):
            if found == events:
                break
    return found / (time.perf_counter() - begun)


def reading(folder, events, tools):
    """Print the ratios of reading."""
    write(folder, events)
    files = sorted(folder.glob("*.evb"))
    size = sum(file.stat().st_size for file in files)
    dd(files)
    batches(folder, events)
    before = private_memory()
    pairs = []
    for turn in range(ROUNDS):
        first = dd(files) if turn % 2 else None
        own = batches(folder, events)
        pairs.append((first or dd(files), own))
    grown = private_memory() - before
    other, own = (statistics.median(times) for times in zip(*pairs))
    ratio = statistics.median(other / own for other, own in pairs)
    print(f"batches of {events} events of 4 x 1 kB, all checksums: {events / own:.0f} events/s (aim: 1000000)")
    print(f"  {size / own / 1e9:.2f} GB/s beside dd bs=1M {size / other / 1e9:.2f} GB/s: ratio {ratio:.2f} (aim: 0.8)")
    print(f"  private memory grew by {grown} kB")
    pure = pure_python(files[0], tools, 2000)
    print(f"  beside evb_read.py, {pure:.0f} events/s: ratio {events / own / pure:.0f} (aim: 50)")
    begun = time.perf_counter()
    few = evb.open(files[0])
    for found, _ in enumerate(few, 1):
        if found == 100_000:
            break
    print(f"  event by event: {found / (time.perf_counter() - begun):.0f} events/s")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


SYSTEM = """
[run]
events = {events}
[supervisor]
listen = "127.0.0.1:{port}"
trigger = "as-fast-as-possible"
[[source]]
id = 1
bind = "127.0.0.1"
max_fragment = "64 KiB"
input = {{ kind = "tcp", listen = "127.0.0.1:{unused}" }}
[[builder]]
id = 1
listen = "127.0.0.1:{other}"
sink = "null"
"""


def through_evb(folder, evbd):
    """Return the rate of a Python source to a builder of evbd, in GB/s of payload."""
    port = free_port()
    config = folder / "speed.toml"
    config.write_text(SYSTEM.format(events=MESSAGES, port=port, other=free_port(), unused=free_port()), encoding="utf-8")
    roles = ["--role", "supervisor", "--role", "builder:1"]
    daemon = subprocess.Popen([evbd, "run", str(config), "--quiet", *roles], stdout=subprocess.DEVNULL)
    try:
        source = evb.Source(f"127.0.0.1:{port}", 1, max_fragment=len(LARGE))
        begun = time.perf_counter()
        for event in range(1, MESSAGES + 1):
            source.push(event, LARGE, event)
        outcome = source.finished()
        assert outcome.exit_code == 0, outcome.verdict
        took = time.perf_counter() - begun
        daemon.wait(30)
    finally:
        daemon.kill()
        daemon.wait()
    return MESSAGES * len(LARGE) / took / 1e9


def pull(port, ready, size):
    """Receive messages until they have a number of bytes in all, and then answer."""
    context = zmq.Context()
    puller = context.socket(zmq.PULL)
    puller.bind(f"tcp://127.0.0.1:{port}")
    answer = context.socket(zmq.PUSH)
    answer.bind(f"tcp://127.0.0.1:{ready}")
    while size > 0:
        size -= sum(map(len, puller.recv_multipart()))
    answer.send(b"all")
    # A sender whose messages have heads still has some messages to send.
    while puller.poll(1000):
        puller.recv_multipart()
    context.destroy(linger=1000)


def to_puller(send):
    """Return the rate at which `send` sends through a PUSH socket to another process, in GB/s."""
    port, ready = free_port(), free_port()
    process = get_context("spawn").Process(target=pull, args=(port, ready, MESSAGES * len(LARGE)))
    process.start()
    context = zmq.Context()
    pusher, answer = context.socket(zmq.PUSH), context.socket(zmq.PULL)
    pusher.connect(f"tcp://127.0.0.1:{port}")
    answer.connect(f"tcp://127.0.0.1:{ready}")
    pusher.send(LARGE[:1])  # returns when the peer is there or the message is in the queue
    time.sleep(1.0)  # until the other process has started
    begun = time.perf_counter()
    send(pusher)
    answer.recv()
    took = time.perf_counter() - begun
    process.join()
    context.destroy()
    return MESSAGES * len(LARGE) / took / 1e9


def zeromq(pusher):
    """Send by pyzmq alone."""
    for _ in range(MESSAGES):
        pusher.send(LARGE)


def constellation(pusher):
    """Send by the Python sender of Constellation."""
    from constellation.core.cdtp import DataTransmitter

    class Silent(logging.Logger):
        def trace(self, *_):
            """Do nothing."""

    sender = DataTransmitter("speed", pusher, Silent("speed", logging.ERROR), print)
    sender.start_sending()
    for _ in range(MESSAGES):
        record = sender.new_data_record()
        record.add_block(LARGE)
        while not sender.can_send_record():
            time.sleep(0.0001)
        sender.send_data_record(record)
    sender.stop_sending()


def sending(folder, evbd):
    """Print the ratios of sending; the other sides have neither checksums nor acknowledgements."""
    rivals = {"pyzmq PUSH/PULL": (zeromq, 0.8)}
    if importlib.util.find_spec("constellation"):
        rivals["ConstellationDAQ's sender"] = (constellation, 2.0)
    else:
        print("ConstellationDAQ is not installed")
    for name, (rival, aim) in rivals.items():
        pairs = []
        for turn in range(ROUNDS):
            other = to_puller(rival) if turn % 2 else None
            own = through_evb(folder, evbd)
            pairs.append((own, other or to_puller(rival)))
        own, other = (statistics.median(rates) for rates in zip(*pairs))
        ratio = statistics.median(own / other for own, other in pairs)
        print(f"a source pushes fragments of 64 KiB: {own:.2f} GB/s, with checksums and acknowledged")
        print(f"  beside {name} {other:.2f} GB/s: ratio {ratio:.2f} (aim: {aim})")


def main():
    folder, events, evbd, tools = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, NumPy {np.__version__}")
    try:
        reading(folder, events, tools)
        sending(folder, evbd)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
