"""A source that pushes until its run is over: source.py SUPERVISOR SIGNAL. At the signal, if it is not
0, the program asks for the end of the run; all other signals do what they do by default."""

import itertools
import signal
import sys

import evb

asked = []
if int(sys.argv[2]):
    signal.signal(int(sys.argv[2]), lambda *_: asked.append(True))
with evb.Source(sys.argv[1], id=2, max_fragment=1000, backlog=100_000) as source:
    for event in itertools.count(source.first_event):
        if asked:
            source.request_run_end("a signal")
        try:
            source.push(event, bytes(1000))
        except evb.EndedError:
            break
sys.exit(source.finished().exit_code)
