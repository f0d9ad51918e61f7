"""Run control over HTTP."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any, Union

from ._errors import ControlError, RefusedError

StrPath = Union[str, "os.PathLike[str]"]


class Control:
    """Run control of an evbd process: status, history and commands.

    ``docs/reference/run-control.md`` describes the states, the commands and the status.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:7900",
        token: str | None = None,
        *,
        token_file: StrPath | None = None,
        timeout: float = 30.0,
    ) -> None:
        """Choose the evbd process; nothing is sent yet.

        ``token`` or the content of ``token_file`` proves the right to give commands, where evbd
        asks for it. ``timeout`` is the time to wait for an answer, in seconds.
        """
        if token_file is not None:
            token = Path(token_file).read_text(encoding="utf-8").strip()
        self.url = url.rstrip("/")
        """The address of evbd."""
        self._token = token
        self._timeout = timeout
        # A proxy has no business between a program and its data acquisition.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def status(self) -> dict[str, Any]:
        """Return the whole status."""
        return self._request("GET", "/v1/status")

    def history(self, after: int | None = None) -> dict[str, Any]:
        """Return samples of the last hour, one a second; only those after number ``after``."""
        return self._request("GET", "/v1/history" + ("" if after is None else f"?after={int(after)}"))

    def configure(self) -> str:
        """Read the configuration file again, and open the next run; return the state."""
        return self._command("configure")

    def start(self, comment: str = "", kind: str = "") -> str:
        """Start the next run, with a comment and a kind for the logbook; return the state."""
        given = {"comment": comment, "kind": kind}
        return self._command("start", {key: text for key, text in given.items() if text})

    def stop(self, wait: bool = True) -> str:
        """Stop the run; with ``wait`` until every event is settled; return the state."""
        state = self._command("stop")
        return self.wait_while("Stopping", state=state) if wait else state

    def pause(self) -> str:
        """Pause the run; return the state."""
        return self._command("pause")

    def resume(self) -> str:
        """Resume a paused run; return the state."""
        return self._command("resume")

    def reset(self) -> str:
        """Acknowledge a failure, or put the configuration out of force; return the state."""
        return self._command("reset")

    def wait_while(self, unwanted: str, timeout: float = 600.0, *, state: str | None = None) -> str:
        """Wait until the state is another one, and return it; ``TimeoutError`` after a time in s."""
        until = time.monotonic() + timeout
        state = state or str(self.status()["state"])
        while state == unwanted:
            if time.monotonic() > until:
                raise TimeoutError(f"run control at {self.url} is still in state {state} after {timeout:g} s; wait again with a longer timeout, or look at the problems in status()")
            time.sleep(0.1)
            state = str(self.status()["state"])
        return state

    def _command(self, name: str, body: dict[str, str] | None = None) -> str:
        return str(self._request("POST", f"/v1/{name}", body or {})["state"])

    def _request(self, method: str, path: str, body: dict[str, str] | None = None) -> dict[str, Any]:
        request = urllib.request.Request(self.url + path, method=method)
        if body is not None:
            request.add_header("Content-Type", "application/json")
            request.data = json.dumps(body).encode()
        if self._token is not None:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                return self._object(answer.read())
        except urllib.error.HTTPError as error:
            raise self._refusal(error) from None
        except (OSError, HTTPException) as error:
            remedy = "check the network to it, and that evbd runs there with a section [control] or with --control"
            message = f"no answer from run control at {self.url}: {error}; {remedy}"
            raise ControlError(message) from None

    def _object(self, text: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise ControlError(f"the answer from {self.url} is no JSON object, as it would be from evbd: give the address of its run control")
        return answer

    def _refusal(self, error: urllib.error.HTTPError) -> ControlError:
        text = error.read()
        if error.code == 409:
            answer = self._object(text)
            usual = {
                "request": "the request",
                "refused_by": "the program at that address",
                "reason": "it gives no reason",
                "remedy": "check that this is the address of evbd's run control",
            }
            return RefusedError(*(str(answer.get(key, words)) for key, words in usual.items()))
        try:
            answer = self._object(text)
            said = "; ".join(str(answer[key]) for key in ("reason", "remedy", "error") if key in answer)
        except ControlError:
            said = text.decode(errors="replace").strip()
        said = said or "it gives no reason; check that this is the address of evbd's run control"
        return ControlError(f"run control at {self.url} answers {error.code} {error.reason}: {said}")
