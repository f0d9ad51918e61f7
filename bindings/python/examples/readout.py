"""Writes event files from Python readout: python3 readout.py DIRECTORY [EVENTS]

Two sources, which stand for two digitizers, push one fragment for each event: 100 samples of 16 bits.
"""

from __future__ import annotations

import random
import sys
from array import array

import evb


def samples(event: int, channel: int) -> bytes:
    """Return noise with a pulse, as little-endian numbers of 16 bits."""
    noise = random.Random(event * 10 + channel)
    pulse = 200 + noise.randrange(100)
    values = [100 + noise.randrange(10) + (pulse if 40 <= tick < 50 else 0) for tick in range(100)]
    numbers = array("H", values)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def main(directory: str, events: int) -> None:
    """Build the events in this process, and write them to files."""
    with evb.LocalSystem(sources=2, builders=1, sink=directory, events=events) as system:
        for event in range(1, events + 1):
            for channel, source in enumerate(system.sources):
                source.push(event, samples(event, channel), timestamp=event * 1000)
        print(system.finished()["verdict"])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
