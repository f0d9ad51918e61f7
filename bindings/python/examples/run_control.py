"""Takes runs of a given length one after the other: python3 run_control.py URL RUNS SECONDS"""

from __future__ import annotations

import sys
import time

import evb


def main(url: str, runs: int, seconds: float) -> None:
    """Start and stop runs, and print how each one ended."""
    control = evb.Control(url)
    for number in range(1, runs + 1):
        try:
            control.start(comment=f"run {number} of {runs}")
            time.sleep(seconds)
            control.stop()
        except evb.RefusedError as error:
            sys.exit(f"{error.reason}: {error.remedy}")
        print(control.status()["last_run"]["verdict"])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
