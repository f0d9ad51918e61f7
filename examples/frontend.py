#!/usr/bin/env python3
"""A front-end process: sends a fragment of every event to a source of evbd. docs/reference/front-end.md has the bytes.

    evbd run examples/frontend.toml &
    python3 examples/frontend.py 127.0.0.1:7201 --events 1000
    python3 examples/frontend.py out/source2.sock --events 1000
"""

import argparse
import random
import socket
import struct
import time

HEAD = struct.Struct("<IQQ")  # payload length, event id, timestamp


def connect(where, patience=30.0):
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
            return front_end
        except OSError:
            front_end.close()
            if time.monotonic() > give_up:
                raise
            time.sleep(0.1)


def main():
    arguments = argparse.ArgumentParser(description="send fragments to a source of evbd")
    arguments.add_argument("where", help="host:port or the path of a Unix socket")
    arguments.add_argument("--events", type=int, default=1000, help="send fragments of events 1 to this")
    given = arguments.parse_args()
    with connect(given.where) as front_end:
        for event in range(1, given.events + 1):
            payload = random.randbytes(random.randint(100, 2000))  # here goes the detector's data
            # Waits while the source's backlog is full: the event builder is behind.
            front_end.sendall(HEAD.pack(len(payload), event, time.time_ns()) + payload)


if __name__ == "__main__":
    main()
