"""evb for Python: read event files, push fragments, build events, control runs.

    import evb

    for batch in evb.open("out/events").batches():     # arrays, without a copy
        columns = batch.columns()
    for event in evb.open("run000001_b01_0000.evb"):   # event by event
        print(event.id, [len(fragment.payload) for fragment in event.fragments])

``open`` reads files. ``Source`` and ``Builder`` take part in a run, ``LocalSystem`` is a whole
system in this process, ``Control`` gives commands to evbd, ``tap`` shows events of a run that
goes on, and ``receive`` takes all events of builders. Arrays need NumPy; all else works without it. Processes that use ``Source``, ``Builder`` or ``LocalSystem`` must not fork afterwards:
let ``multiprocessing`` use ``spawn``.
"""

from ._batch import Batch, Columns
from ._control import Control
from ._errors import (
    ControlError,
    DamageWarning,
    EndedError,
    Error,
    FileError,
    NotFoundError,
    PushError,
    RefusedError,
    RunsError,
)
from ._events import Change, Episode, Event, Fragment, alignment_text, cause_text
from ._evb import Finding, __version__
from ._files import EventFile, EventFiles, open
from ._roles import Builder, Clock, LocalSystem, Outcome, Source
from ._receive import Consumer, receive
from ._tap import Tap, tap

__all__ = [
    "Batch",
    "Builder",
    "Change",
    "Clock",
    "Columns",
    "Consumer",
    "Control",
    "ControlError",
    "DamageWarning",
    "EndedError",
    "Episode",
    "Error",
    "Event",
    "EventFile",
    "EventFiles",
    "FileError",
    "Finding",
    "Fragment",
    "LocalSystem",
    "NotFoundError",
    "Outcome",
    "PushError",
    "RefusedError",
    "RunsError",
    "Source",
    "Tap",
    "__version__",
    "alignment_text",
    "cause_text",
    "open",
    "receive",
    "tap",
]
