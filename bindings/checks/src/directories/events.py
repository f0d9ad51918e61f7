"""Prints as JSON what a Python reader finds in a directory: events.py evb|evb_read DIRECTORY [RUN]

error: why there are no events, or null. events: id, epoch, sources and missing sources, of the copy that counts.
lengths: the number of records of each file, by its index. named: the words about what is wrong.
"""

import json
import sys
import warnings


def counted(events):
    """Of the copies of an event, the first one with the highest epoch."""
    found = {}
    for event in events:
        before = found.get(event.id)
        if before is None or event.epoch > before.epoch:
            found[event.id] = event
    return [
        [event.id, event.epoch, [one.source for one in event.fragments], list(event.missing)]
        for _, event in sorted(found.items())
    ]


def by_package(path, run):
    import evb

    choice = {} if run is None else {"run": int(run) if run.isdigit() else run}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            files = evb.open(path, **choice)
            events = counted(files)
            lengths = [len(file) for file in files.files]
            named = [one.text for one in files.findings]
        except (evb.FileError, evb.RunsError, OSError) as error:
            return {"error": f"{type(error).__name__}: {error}", "events": [], "lengths": [], "named": []}
    return {"error": None, "events": events, "lengths": lengths, "named": named + [str(one.message) for one in said]}


def by_script(path, run):
    import evb_read

    runs, unusable = evb_read.runs_of(evb_read.files_at([path]))
    if run is not None:
        runs = evb_read._selected(runs, run)
    named = [repr(str(one)) for one, _ in unusable]
    if len(runs) != 1:
        return {"error": "%d runs" % len(runs), "events": [], "lengths": [], "named": named}
    events, lengths = [], []
    for one in runs[0].files:
        with evb_read.EventFile(one) as file:
            found = list(file.scan())
            lengths.append(len(file.index()))
        events += [item for item in found if not isinstance(item, evb_read.Damaged)]
        named += [one] if file.recovered or any(isinstance(item, evb_read.Damaged) for item in found) else []
    return {"error": None, "events": counted(events), "lengths": lengths, "named": named}


if __name__ == "__main__":
    reader = {"evb": by_package, "evb_read": by_script}[sys.argv[1]]
    json.dump(reader(sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None), sys.stdout)
