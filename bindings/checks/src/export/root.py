"""Compares the TTree that the recipe has written with the Parquet file from which it came."""

import json
import sys

import pyarrow.compute as pc
import pyarrow.parquet as pq
import uproot
from awscrt.checksums import crc64nvme

rows = pq.read_table(sys.argv[1])
rows = rows.filter(pc.is_valid(rows["payload"]))
with uproot.open(sys.argv[2]) as root:
    assert root.classname_of("fragments") == "TTree", root.classnames()
    tree = root["fragments"].arrays()
different = abs(len(tree) - len(rows))
for name in ("event", "source", "timestamp", "checksum"):
    different += int((tree[name].to_numpy() != rows[name].to_numpy()).sum())
for payload, told in zip(tree["payload"], rows["checksum"].to_pylist()):
    different += crc64nvme(payload.to_numpy().tobytes()) != told
print(json.dumps({"fragments": len(tree), "different": different}))
