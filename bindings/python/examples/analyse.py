"""Prints the mean pulse of each source from event files: python3 analyse.py PATH"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

import evb


def main(path: str) -> None:
    """Add up the samples of each source, and print the mean of the largest one."""
    sums: dict[int, npt.NDArray[np.uint64]] = {}
    counts: dict[int, int] = {}
    for batch in evb.open(path).batches():
        columns = batch.columns()
        for source in np.unique(columns.source):
            rows = columns.source == source
            if len(np.unique(columns.length[rows])) != 1:
                sys.exit(f"the fragments of source {source} have different lengths")
            # One row of bytes for each fragment; this indexing makes the only copy.
            length = int(columns.length[rows][0])
            places: npt.NDArray[Any] = columns.offset[rows][:, None] + np.arange(length, dtype=np.uint64)
            pulses = columns.data[places].view("<u2")
            sums[int(source)] = sums.get(int(source), np.uint64(0)) + pulses.sum(axis=0, dtype=np.uint64)
            counts[int(source)] = counts.get(int(source), 0) + len(pulses)
    for source, total in sorted(sums.items()):
        mean = total / counts[source]
        print(f"source {source}: {counts[source]} fragments, mean peak {mean.max():.1f} at sample {mean.argmax()}")


if __name__ == "__main__":
    main(sys.argv[1])
