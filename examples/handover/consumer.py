"""Takes every event of a builder, and keeps a line of text for each.

    python3 consumer.py 127.0.0.1:7401 events.txt

The builder has sink = { kind = "socket", address = "127.0.0.1:7401" }. Stop this program at any time
and start it again: the builder waits, and no event is missing from the file. An event that was written
when the program died comes again; its line is then there twice.
"""

import os
import sys

import evb

address, path = sys.argv[1:]
with evb.receive(address) as events, open(path, "a", encoding="utf-8") as out:
    print("takes events at", events.address, flush=True)
    for event in events:
        print(event.run_id, event.id, sum(len(one.payload) for one in event.fragments), file=out)
        # The event is acknowledged when the loop asks for the next one: it must be safe by then.
        out.flush()
        os.fdatasync(out.fileno())
