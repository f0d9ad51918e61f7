"""Reads an export with h5py or pyarrow, computes the checksum of every payload, and prints counts.

`digest` is the CRC-64/NVME of all fragments in order, each as five numbers of eight bytes: event id,
source, timestamp, length, checksum. `missing` is the same of event id and source of each fragment
that is owed and not there, `absent` of each that is not owed.
"""

import json
import sys

import h5py
import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from awscrt.checksums import crc64nvme

PIECE = 64 << 20  # bytes of payload that are read at a time


def digest(before, *columns):
    table = np.stack([np.asarray(column, dtype="<u8") for column in columns], axis=1)
    return crc64nvme(np.ascontiguousarray(table).tobytes(), before)


def read_hdf5(path):
    said = {"fragments": 0, "wrong": 0, "bytes": 0}
    with h5py.File(path) as file:
        said["attributes"] = {name: str(value) for name, value in file.attrs.items()}
        events = file["events/event"][:]
        said["events"] = len(events)
        fragments = {name: column[:] for name, column in file["fragments"].items()}
        offset, length = fragments["offset"], fragments["length"].astype("u8")
        said["fragments"], said["bytes"] = len(offset), int(length.sum())
        end = offset + length
        assert np.array_equal(end[:-1], offset[1:]), "payloads follow each other"
        first = 0
        while first < len(offset):
            last = max(first + 1, int(np.searchsorted(end, offset[first] + PIECE)))
            begin = int(offset[first])
            data = memoryview(file["data"][begin : int(end[last - 1])])
            rows = zip(offset[first:last].tolist(), end[first:last].tolist(), fragments["checksum"][first:last].tolist())
            said["wrong"] += sum(crc64nvme(data[a - begin : b - begin]) != told for a, b, told in rows)
            first = last
        row = fragments["event_row"]
        bounds = file["events/first_fragment"][:].astype("i8")
        assert np.array_equal(np.repeat(np.arange(len(events)), np.diff(bounds)), row), "rows of events"
        columns = [fragments[name] for name in ("source", "timestamp", "length", "checksum")]
        said["digest"] = digest(0, events[row], *columns) if len(row) else 0
        for name in ("missing", "absent"):
            sources, bounds = file[name][:], file[f"events/first_{name}"][:].astype("i8")
            said[name] = digest(0, np.repeat(events, np.diff(bounds)), sources) if len(sources) else 0
    return said


def read_parquet(path):
    said = {"fragments": 0, "wrong": 0, "bytes": 0, "events": 0, "digest": 0, "missing": 0, "absent": 0}
    file = pq.ParquetFile(path)
    said["attributes"] = {name.decode().removeprefix("evb."): value.decode() for name, value in file.metadata.metadata.items()}
    for group in range(file.num_row_groups):
        rows = file.read_row_group(group)
        said["events"] += len(pc.unique(rows["event"]))
        there = rows.filter(pc.is_valid(rows["payload"]))
        payloads = there["payload"].combine_chunks()
        checksums = there["checksum"].to_pylist()
        said["wrong"] += sum(crc64nvme(payload.as_buffer()) != told for payload, told in zip(payloads, checksums))
        assert pc.all(pc.equal(pc.binary_length(payloads), there["length"].combine_chunks())).as_py() is not False
        said["fragments"] += len(there)
        said["bytes"] += pc.sum(there["length"]).as_py() or 0
        names = ("event", "source", "timestamp", "length", "checksum")
        if len(there):
            said["digest"] = digest(said["digest"], *(there[name].to_numpy() for name in names))
        without = rows.filter(pc.and_(pc.is_null(rows["payload"]), pc.is_valid(rows["source"])))
        for name, lacking in (
            ("missing", without.filter(pc.invert(without["absent"]))),
            ("absent", without.filter(without["absent"])),
        ):
            if len(lacking):
                said[name] = digest(said[name], lacking["event"].to_numpy(), lacking["source"].to_numpy())
    return said


format, path = sys.argv[1:]
print(json.dumps({"hdf5": read_hdf5, "parquet": read_parquet}[format](path)))
