"""The exceptions and warnings of the package."""

from __future__ import annotations

from ._evb import EndedError, Error, FileError, PushError

__all__ = [
    "ControlError",
    "DamageWarning",
    "EndedError",
    "Error",
    "FileError",
    "NotFoundError",
    "PushError",
    "RefusedError",
    "RunsError",
]


class NotFoundError(Error, LookupError):
    """An event, fragment or source that does not exist was asked for."""


class RunsError(Error, ValueError):
    """The files are of several runs, or of none that was chosen; the text lists the runs."""


class DamageWarning(UserWarning):
    """A part of a file that cannot be read; reading goes on behind it."""


class ControlError(Error):
    """Run control did not answer, or did not understand the request."""


class RefusedError(ControlError):
    """Run control refused a command.

    The attributes ``refused_by``, ``reason`` and ``remedy`` are texts.
    """

    def __init__(self, command: str, refused_by: str, reason: str, remedy: str) -> None:
        super().__init__(f"{command} refused by {refused_by}: {reason}; {remedy}")
        self.refused_by = refused_by
        self.reason = reason
        self.remedy = remedy
