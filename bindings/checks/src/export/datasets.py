"""Compares the flat layout with a dataset for each fragment: reads all payloads of both by h5py.

Prints the seconds for each fragment. The file with datasets has only the first fragments of the
export; opening a dataset takes longer the more there are, so this favours it.
"""

import json
import sys
import time

import h5py
import numpy as np

export, other, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with h5py.File(export) as file:
    offset = file["fragments/offset"][:count].tolist()
    length = file["fragments/length"][:count].tolist()
    data = memoryview(file["data"][: offset[-1] + length[-1]])
payloads = [data[begin : begin + size] for begin, size in zip(offset, length)]
with h5py.File(other, "w", libver="latest") as file:
    for place, payload in enumerate(payloads):
        file.create_dataset(f"{place:08}", data=np.frombuffer(payload, "u1"))


def flat():
    with h5py.File(export) as file:
        data = memoryview(file["data"][:])
        offset, length = file["fragments/offset"][:].tolist(), file["fragments/length"][:].tolist()
        return [data[begin : begin + size] for begin, size in zip(offset, length)]


def datasets():
    with h5py.File(other) as file:
        return [file[f"{place:08}"][:] for place in range(len(payloads))]


def per_fragment(read):
    best = None
    for _ in range(3):  # the first time, the file may not be in memory
        began = time.perf_counter()
        found = read()
        seconds = (time.perf_counter() - began) / len(found)
        best = seconds if best is None else min(best, seconds)
    return best, found


flat_s, found = per_fragment(flat)
assert found[: len(payloads)] == payloads
datasets_s, found = per_fragment(datasets)
assert all(np.array_equal(read, payload) for read, payload in zip(found, payloads))
print(json.dumps({"flat_s": flat_s, "datasets_s": datasets_s, "datasets": len(found)}))
