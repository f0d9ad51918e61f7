"""Records process variables of EPICS in the events: a fragment with all their values, every half second.

    [[source]]
    id    = 9
    input = { kind = "tcp", listen = "127.0.0.1:7209", front_ends = 0 }
    owes  = "none"
    wait  = "5 ms"

    python3 record.py 127.0.0.1:7209 RING:CURRENT DET:HV:1 --control http://127.0.0.1:7900

Events wait 5 ms for these fragments, and are complete without one. The payload is JSON:
{"utc_ns": …, "values": {"RING:CURRENT": {"value": …, "utc_ns": …, "severity": 0}}}. A value has the time
of its server, and the snapshot that of this program, which is also the timestamp of the fragment. What
is not connected is left out; of an enumeration, the index is recorded.

A snapshot must be at evb before its event is built. So it goes to a later event: by --lead seconds, as
triggers come at present, or to the next one if they are rare. Every value is older than the trigger of
its event, as the times show. A snapshot that is late, or whose event is not kept, is not used.

Needs the packages evb and p4p.
"""

import argparse
import json
import math
import socket
import struct
import sys
import time
from functools import partial

import evb
from p4p.client.thread import Context

MARK = b"\xff\xff\xff\xff"
PREAMBLE = struct.Struct("<4sBBB13x")  # mark, version, length of the name, flags
HEAD = struct.Struct("<IQQ")  # payload length, event id, timestamp
STARTED = struct.Struct("<II16sQ")  # kind, run number, run id, first event


def keep(values, name, got):
    """Keep the latest value of a process variable, while its server is there."""
    if isinstance(got, Exception):
        return values.pop(name, None)
    seconds, ns = (got.get(f"timeStamp.{key}", 0) for key in ("secondsPastEpoch", "nanoseconds"))
    value, severity = got.get("value.index", got["value"]), got.get("alarm.severity", 0)
    values[name] = {"value": value, "utc_ns": seconds * 10**9 + ns, "severity": severity}


def record(front_end, control, values, options):
    """Send snapshots until the end of the run."""
    front_end.sendall(PREAMBLE.pack(MARK, 2, 9, 0) + b"record.py")
    _, _, run, first = STARTED.unpack(front_end.recv(32, socket.MSG_WAITALL))  # waits for the start
    front_end.sendall(MARK + run)
    # In a run under way, another program may have sent a snapshot for the next event.
    last, seen, begin = first if first > 1 else 0, None, math.inf
    while True:
        now = time.time_ns()
        payload = json.dumps({"utc_ns": now, "values": dict(values)}, default=lambda array: array.tolist()).encode()
        status = control.status()
        if status["run_id"] != run.hex() or not status["survey"]:
            return
        # evbd makes a status every half second, and gives that to all who ask.
        triggered, at = status["survey"]["events"]["triggered"], status["survey"]["running_s"]
        begin = min(begin, time.monotonic() - at)
        if seen and at > seen[1]:
            rate = (triggered - seen[0]) / (at - seen[1])
            event = triggered + 1 + int(rate * (time.monotonic() - begin - at + options.lead))
            # An event takes one fragment. While no trigger comes, the first one stands.
            if event > last:
                front_end.sendall(HEAD.pack(len(payload), event, now) + payload)
                last = event
        seen = triggered, at
        time.sleep(options.every)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source", help="host:port at which the source listens")
    parser.add_argument("names", nargs="+", help="names of process variables")
    parser.add_argument("--control", default="http://127.0.0.1:7900", help="address of evbd's run control")
    parser.add_argument("--every", type=float, default=0.5, help="seconds between two snapshots")
    parser.add_argument("--lead", type=float, default=0.2, help="seconds from a snapshot to its event")
    options = parser.parse_args()
    host, port = options.source.rsplit(":", 1)
    values, context, control = {}, Context("pva", nt=False), evb.Control(options.control)
    kept = [context.monitor(name, partial(keep, values, name), notify_disconnect=True) for name in options.names]
    print(f"records {len(kept)} process variables", flush=True)
    while True:
        try:
            with socket.create_connection((host, int(port))) as front_end:
                record(front_end, control, values, options)
        except (OSError, struct.error, evb.Error) as error:
            print(f"waits for evb: {error}", file=sys.stderr, flush=True)
        time.sleep(options.every)


if __name__ == "__main__":
    main()
