#!/usr/bin/env python3
"""Keeps events of which a fragment has a mean byte above a threshold, with its source as their tag.

filter = { kind = "process", command = ["python3", "/opt/daq/large.py", "127"], workers = 4 }

evb_filter.py is beside this file, or in PYTHONPATH.
"""

import sys

from evb_filter import Tag, run

threshold = float(sys.argv[1]) if len(sys.argv) > 1 else 127


def mean(fragment):
    return sum(fragment.payload) / max(len(fragment), 1)  # or fragment.as_numpy().mean()


def judge(event):
    large = [fragment.source for fragment in event if mean(fragment) > threshold]
    return bool(large) and Tag(large[0])


run(judge)
