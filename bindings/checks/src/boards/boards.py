"""Boards at evbd: emulators of the boards in examples/boards, and senders of spead2.

Usage: boards.py EVBD EXAMPLES FOLDER EVENTS. Prints a line `RESULT 1 what` or `RESULT 0 what` for each check.
"""

import json
import os
import random
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy
import spead2
import spead2.recv
import spead2.send

EVBD, EXAMPLES, FOLDER, EVENTS = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
sys.path.append(str(EXAMPLES.parent.parent / "bindings/python"))
import evb_read

NOISE = random.Random(1).randbytes(1 << 17)
TICKS = 125  # of a clock with 125 MHz, for each microsecond


def result(what, passes, detail=""):
    print("RESULT", int(bool(passes)), what, "" if passes else detail, flush=True)


def payload(source, event, size):
    """Returns the bytes that a source sends for an event: a stamp, and noise that follows from it."""
    at = (event * 7919 + source * 104729) % (len(NOISE) - size)
    return struct.pack("<HQ", source, event) + NOISE[at : at + size - 10]


def free_ports(count):
    """Returns ports of which this host uses none, for TCP and UDP."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Run:
    """A run of evbd with the sources of an example."""

    def __init__(self, name, ports, events, keys=""):
        text = (EXAMPLES / f"{name}.toml").read_text()
        section = text[text.index("[[source]]") : text.index("[[builder]]")]
        sources = ""
        for number, port in enumerate(ports, 1):
            own = section.replace('ids     = "1-2"', f"id      = {number}").replace("{id}", str(number))
            own = re.sub(r'"127\.0\.0\.1:\{\d+\+id\}"', f'"127.0.0.1:{port}"', own)
            sources += own.replace('listen  = "127.0.0.1:', keys.replace("NUMBER", str(number)) + 'listen  = "127.0.0.1:')
        own = free_ports(2)
        self.folder = FOLDER / name
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        config = self.folder / "evb.toml"
        config.write_text(
            f'[supervisor]\nlisten = "127.0.0.1:{own[0]}"\ntrigger = "as-fast-as-possible"\ndeadline = "5 s"\nslots = 256\n'
            f"[run]\nevents = {events}\n{sources}"
            f'[[builder]]\nid = 1\nlisten = "127.0.0.1:{own[1]}"\nsink = {{ kind = "file", path = "{self.folder}/out" }}\n'
        )
        self.log = self.folder / "log"
        command = [EVBD, "run", config, "--quiet", "--summary", self.folder / "summary.json"]
        env = {**os.environ, "EVBD_LOG": "info"}
        self.evbd = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self.log.open("w"), env=env)
        self.name = name

    def wait(self, words):
        """Waits until the log has these words."""
        for _ in range(600):
            if words in self.log.read_text():
                return
            time.sleep(0.05)
        raise TimeoutError(f"{words} is not in {self.log}")

    def end(self):
        """Waits for the end of the run, and returns its summary and its events."""
        try:
            self.evbd.wait(300)
        except subprocess.TimeoutExpired:
            self.evbd.kill()
            raise
        summary = json.loads((self.folder / "summary.json").read_text())
        runs, unusable = evb_read.runs_of(evb_read.files_at([str(self.folder / "out")]))
        if unusable or len(runs) != 1:
            raise ValueError(f"{self.folder}: {len(runs)} runs, {unusable}")
        return summary, runs[0].realigned()


def same_bytes(name, run, sizes, kept, count):
    """Checks that all events are complete and have the bytes that were sent."""
    summary, events = run.end()
    complete = summary["events"]["complete"]
    result(f"{name}: {count} events are complete", complete == count and not summary["problems"], summary["verdict"])
    wrong = total = 0
    for event in events:
        total += 1
        parts = {part.source: part.payload for part in event.fragments}
        expected = {number: kept(number, event.id) for number in sizes}
        wrong += parts != expected
    result(f"{name}: {total} events have the bytes that were sent", wrong == 0 and total == count, f"{wrong} differ")


def servers(ports, frame, count):
    """Starts a TCP server for each board, which sends its frames to the first client."""
    listeners = [socket.create_server(("127.0.0.1", port)) for port in ports]

    def serve(number, listener):
        client, _ = listener.accept()
        with client:
            for first in range(1, count + 1, 100):
                events = range(first, min(first + 100, count + 1))
                client.sendall(b"".join(frame(number, event) for event in events))
            client.recv(1)  # until evb closes the connection
        listener.close()

    for number, listener in enumerate(listeners, 1):
        threading.Thread(target=serve, args=(number, listener), daemon=True).start()


def sitcp(count):
    size = {1: 200, 2: 333}

    def frame(number, event):
        data = payload(number, event, size[number])
        clock = event * 1000 * TICKS + number * 77
        return struct.pack(">HHHHI", 0xEB90, len(data), (event - 1) & 0xFFFF, clock >> 32 & 0xFFFF, clock & 0xFFFFFFFF) + data

    ports = free_ports(2)
    servers(ports, frame, count)
    same_bytes("sitcp", Run("sitcp", ports, count), size, frame, count)


def time_slices(count):
    size = {1: 300, 2: 100}

    def frame(number, event):
        data = payload(number, event, size[number])
        return b"SLIC" + struct.pack("<IIIQ", len(data), event - 1, 0, event * 1000) + data

    ports = free_ports(2)
    servers(ports, frame, count)
    same_bytes("time-slices", Run("time-slices", ports, count), size, frame, count)


def paced(count, rate):
    """Yields numbers from 1 on, at most so many in a second."""
    began = time.monotonic()
    for number in range(1, count + 1):
        ahead = (number - 1) / rate - (time.monotonic() - began)
        if ahead > 0.002:
            time.sleep(ahead)
        yield number


def digitizer(count):
    size, packet = {1: 500, 2: 220}, 200
    ports = free_ports(2)
    run = Run("udp-digitizer", ports, count)
    run.wait("takes triggers")
    board = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for event in paced(count, 4000):
        for number, port in enumerate(ports, 1):
            data = payload(number, event, size[number])
            clock = event * 1000 * TICKS + number * 77
            head = b"\xd1" + (event - 1 & 0xFFFFFF).to_bytes(3, "big") + clock.to_bytes(6, "big") + bytes(2)
            places = range(0, len(data), packet)
            for place, at in enumerate(places):
                mark = 0x8000 if at == places[-1] else 0
                board.sendto(head + struct.pack(">H", place | mark) + data[at : at + packet], ("127.0.0.1", port))
    same_bytes("udp-digitizer", run, size, lambda number, event: payload(number, event, size[number]), count)


class Relay(threading.Thread):
    """Passes packets of SPEAD heaps on, and loses some of them."""

    def __init__(self, port, fraction, seed):
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
        self.socket.bind(("127.0.0.1", 0))
        self.port, self.fraction, self.random = port, fraction, random.Random(seed)
        self.lost, self.passed = {}, 0

    def run(self):
        while True:
            packet = self.socket.recv(65536)
            if self.random.random() < self.fraction:
                heap = int.from_bytes(packet[11:16], "big")
                self.lost[heap] = self.lost.get(heap, 0) + 1
                continue
            self.passed += 1
            self.socket.sendto(packet, ("127.0.0.1", self.port))


def send_heaps(port, number, count, size, packet, rate):
    """Sends heaps with one item by spead2."""
    config = spead2.send.StreamConfig(max_packet_size=packet, rate=rate)
    stream = spead2.send.UdpStream(spead2.ThreadPool(), [("127.0.0.1", port)], config)
    group = spead2.send.ItemGroup()
    group.add_item(0x1000, "data", "of the board", shape=(size,), dtype=numpy.uint8)
    for event in range(1, count + 1):
        group["data"].value = numpy.frombuffer(payload(number, event, size), dtype=numpy.uint8)
        stream.send_heap(group.get_heap(descriptors="none", data="all"), event)


def received_by_spead2(number, count, size, packet, rate):
    """Returns the payloads of heaps as spead2's own receiver sees them."""
    port = free_ports(1)[0]
    config = spead2.recv.RingStreamConfig(heaps=count + 1)
    stream = spead2.recv.Stream(spead2.ThreadPool(), spead2.recv.StreamConfig(max_heaps=64), config)
    stream.add_udp_reader(port, bind_hostname="127.0.0.1", buffer_size=1 << 24)
    threading.Thread(target=send_heaps, args=(port, number, count, size, packet, rate), daemon=True).start()
    found = {}
    while len(found) < count:
        heap = stream.get()
        found[heap.cnt] = b"".join(bytes(memoryview(item)) for item in heap.get_items() if not item.is_immediate)
    stream.stop()
    return found


def spead(streams, count, fraction):
    """Checks heaps of several streams, of whose packets a fraction is lost."""
    size, packet, rate = 9000, 1472, 20e6 / streams
    name = f"spead2, {streams} streams" + (f", {fraction:.1%} of packets lost" if fraction else "")
    ports = free_ports(streams)
    run = Run("spead2", ports, count, 'on_loss = "fill"\n' if fraction else "")
    run.wait("takes triggers")
    relays = [Relay(port, fraction, seed) for seed, port in enumerate(ports)]
    if fraction:
        for relay in relays:
            relay.start()
    to = [relay.socket.getsockname()[1] for relay in relays] if fraction else ports
    senders = [
        threading.Thread(target=send_heaps, args=(port, number, count, size, packet, rate), daemon=True)
        for number, port in enumerate(to, 1)
    ]
    for sender in senders:
        sender.start()
    if not fraction:
        expected = received_by_spead2(1, min(count, 200), size, packet, rate)
        result(f"{name}: spead2's own receiver has the bytes that were sent",
               all(data == payload(1, event, size) for event, data in expected.items()))
        same_bytes(name, run, range(1, streams + 1), lambda number, event: payload(number, event, size), count)
        return
    summary, events = run.end()
    lost = {(number, heap): packets for number, relay in enumerate(relays, 1) for heap, packets in relay.lost.items()}
    found, wrong = {}, 0
    for event in events:
        for part in event.fragments:
            if part.lost_packets:
                found[part.source, event.id] = part.lost_packets
            sent = payload(part.source, event.id, size)
            differ = sum(one != other for one, other in zip(part.payload, sent))
            wrong += len(part.payload) != size or (differ > 0 and not part.lost_packets)
    drops = sum(source["socket_drops"] for source in summary["sources"])
    counted = sum(source["lost_packets"] for source in summary["sources"])
    result(f"{name}: the {sum(lost.values())} lost packets are named, each with its heap, and no other",
           found == lost and counted == sum(lost.values()), f"{len(found)} of {len(lost)} heaps, {counted} packets, {drops} drops")
    result(f"{name}: all other heaps have the bytes that were sent", wrong == 0, f"{wrong} differ")
    said = f"{len({heap for _, heap in lost})}" if streams == 1 else ""
    result(f"{name}: the events are complete, and the report names those with lost packets",
           summary["events"]["complete"] == count and f"{said} with lost packets of source" in summary["verdict"], summary["verdict"])


sitcp(EVENTS)
time_slices(EVENTS)
digitizer(EVENTS)
for streams in 1, 4, 8:
    spead(streams, EVENTS // (2 * streams), 0)
spead(1, EVENTS // 2, 0.001)
spead(4, EVENTS // 8, 0.01)
