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
)
from ._events import Event, Fragment
from ._evb import Finding, __version__
from ._files import EventFile, EventFiles, open
from ._roles import Builder, LocalSystem, Outcome, Source

__all__ = [
    "Batch",
    "Builder",
    "Columns",
    "Control",
    "ControlError",
    "DamageWarning",
    "EndedError",
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
    "Source",
    "__version__",
    "open",
]
