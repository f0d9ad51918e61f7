#!/usr/bin/env python3
"""A front-end process: sends a fragment of every event to a source of evbd. docs/reference/front-end.md has the bytes.

    evbd run examples/frontend.toml &
    python3 examples/frontend.py 127.0.0.1:7201 --events 1000
    python3 examples/frontend.py source2.sock --events 1000
"""

import argparse
import random
import socket
import struct
import time

MARK = b"\xff\xff\xff\xff"
PREAMBLE = struct.Struct("<4sBBB13x")  # mark, version, length of the name, flags
HEAD = struct.Struct("<IQQ")  # payload length, event id, timestamp
MESSAGE = struct.Struct("<II16sQ")  # kind, run number, run id, value
STARTED, STOPPED, ACCEPTED = 1, 2, 3


def connect(where, name, patience=30.0):
    """A path is a Unix socket, host:port is TCP. evbd may still be starting."""
    family, address = socket.AF_UNIX, where
    if "/" not in where:
        host, port = where.rsplit(":", 1)
        family, address = (socket.AF_INET6 if ":" in host else socket.AF_INET), (host.strip("[]"), int(port))
    give_up = time.monotonic() + patience
    while True:
        front_end = socket.socket(family, socket.SOCK_STREAM)
        try:
            front_end.connect(address)
            front_end.sendall(PREAMBLE.pack(MARK, 2, len(name), 0) + name)
            return front_end
        except OSError:
            front_end.close()
            if time.monotonic() > give_up:
                raise
            time.sleep(0.1)


def messages(front_end):
    """What evb tells this front end, until it closes the connection."""
    while len(bytes_ := front_end.recv(MESSAGE.size, socket.MSG_WAITALL)) == MESSAGE.size:
        yield MESSAGE.unpack(bytes_)


def main():
    arguments = argparse.ArgumentParser(description="send fragments to a source of evbd")
    arguments.add_argument("where", help="host:port or the path of a Unix socket")
    arguments.add_argument("--events", type=int, default=1000, help="send fragments of events 1 to this")
    arguments.add_argument("--name", default="frontend.py", help="name of this front end in evb's log")
    given = arguments.parse_args()
    with connect(given.where, given.name.encode()) as front_end:
        kind, number, run, first = next(messages(front_end))  # waits until the run begins
        front_end.sendall(MARK + run)  # the fragments that follow are of this run
        for event in range(first, given.events + 1):
            payload = random.randbytes(random.randint(100, 2000))  # here goes the detector's data
            # Waits while the source's backlog is full: the event builder is behind.
            front_end.sendall(HEAD.pack(len(payload), event, time.time_ns()) + payload)
        front_end.shutdown(socket.SHUT_WR)
        for kind, _, _, value in messages(front_end):
            if kind == ACCEPTED:
                print(f"run {number}: {value} fragments were accepted")


if __name__ == "__main__":
    main()
