"""What the tests share. The variables EVB_EVBD and EVB_LISTING name the programs `evbd` and `listing`."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

import evb

SOURCES = 2
EVENTS = 50


def payload(event, source):
    """Return the payload that the tests push; its length differs from event to event."""
    return bytes((event * 7 + source + byte) % 256 for byte in range(event % 10 * 2))


def write(folder, events=EVENTS, builders=1, size=payload):
    """Build events into files."""
    with evb.LocalSystem(SOURCES, builders, folder, run=7, events=events) as system:
        for event in range(1, events + 1):
            for id, source in enumerate(system.sources, 1):
                source.push(event, size(event, id), timestamp=event * 100 + id)
        report = system.finished()
    assert report["events"]["complete"] == events, report["verdict"]


def block_length(data, events):
    """Return the length of the closing block of a file, which has a copy of the header."""
    return 40 + 24 * events + int.from_bytes(data[12:16], "little")


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder with the files of two builders."""
    path = tmp_path_factory.mktemp("run")
    write(path, builders=2)
    return path


@pytest.fixture(scope="session")
def path(tmp_path_factory):
    """One event file."""
    folder = tmp_path_factory.mktemp("file")
    write(folder)
    (path,) = folder.glob("*.evb")
    return path


def program(variable):
    """Return a program that the environment names, or skip the test."""
    name = os.environ.get(variable)
    if not name:
        pytest.skip(f"{variable} names no program")
    assert Path(name).is_file(), f"{variable}={name}"
    return name


def is_ready(control):
    """Return true if run control answers, and a run can start."""
    try:
        return control.status()["ready"]
    except evb.ControlError:
        return False


def content(events):
    """Return the fragments of events by event id: source, timestamp and payload of each."""
    return {event.id: [(one.source, one.timestamp, bytes(one.payload)) for one in event.fragments] for event in events}


class Evbd:
    """A running evbd with a supervisor on a port of its own."""

    def __init__(self, folder, text, *arguments):
        config = folder / "evb.toml"
        config.write_text(text)
        self.log = folder / "evbd.log"
        command = [program("EVB_EVBD"), "run", str(config), *arguments]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def wait_for(self, condition):
        """Wait until a condition holds while evbd runs."""
        until = time.monotonic() + 20
        while time.monotonic() < until and self.process.poll() is None:
            if condition():
                return
            time.sleep(0.05)
        raise AssertionError(self.log.read_text())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Killed:
    """A program that is killed and started again."""

    def __init__(self, log, *command):
        self.command, self.log = command, log
        self.start()

    def start(self):
        """Start the program again."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)

    def kill(self):
        """Kill the program."""
        # One that has ended by itself was at fault.
        assert self.process.poll() is None, self.log.read_text()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def free_ports():
    """Three ports of loopback that are free at the moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(3)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
