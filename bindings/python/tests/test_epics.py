"""Runs as process variables of EPICS: what they show, their alarms, and commands."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import Evbd, is_ready

import evb

client = pytest.importorskip("p4p.client.thread")

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "epics" / "pvs.py"
WITHIN = 2.0
"""Seconds within which a process variable follows the status."""
SYSTEM = """
[supervisor]
listen = "127.0.0.1:{supervisor}"
trigger = {{ kind = "periodic", rate = "200 Hz" }}
deadline = "300 ms"
[control]
listen = "127.0.0.1:{control}"
[[source]]
ids = "1-2"
input = {{ kind = "generator", size = "500 B" }}
[[builder]]
id = 1
listen = "127.0.0.1:{builder}"
sink = "null"
"""


def follows(get, wanted, what):
    """Wait until a value is as wanted; fail after the time for it."""
    until = time.monotonic() + WITHIN
    while time.monotonic() < until:
        value = get()
        if wanted(value):
            return value
        time.sleep(0.05)
    raise AssertionError(f"{what}: {get()!r}")


def free_port():
    """Return a port of loopback that is free at the moment."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture
def system(tmp_path, free_ports):
    """An evbd with run control, one with a source of it, the process variables, and a client of them."""
    ports = dict(zip(("supervisor", "control", "builder"), free_ports))
    text = SYSTEM.format(**ports)
    own = {"EPICS_PVA_ADDR_LIST": "127.0.0.1", "EPICS_PVA_AUTO_ADDR_LIST": "NO", "EPICS_PVAS_INTF_ADDR_LIST": "127.0.0.1"}
    own["EPICS_PVA_SERVER_PORT"] = own["EPICS_PVA_BROADCAST_PORT"] = str(free_port())
    command = [sys.executable, str(EXAMPLE), "--control", f"http://127.0.0.1:{ports['control']}", "--every", "0.2"]
    (tmp_path / "apart").mkdir()
    roles = ("supervisor", "builder:1", "source:1")
    with Evbd(tmp_path, text, *(word for role in roles for word in ("--role", role))) as evbd:
        apart = lambda: Evbd(tmp_path / "apart", text, "--role", "source:2")  # noqa: E731
        server = subprocess.Popen(command, env={**os.environ, **own})
        context = client.Context("pva", conf=own, useenv=False)
        try:
            yield evbd, apart, context, evb.Control(f"http://127.0.0.1:{ports['control']}")
        finally:
            context.close()
            server.kill()
            server.wait()


def test_process_variables_follow_the_run(system):
    evbd, apart, context, control = system

    def get(name):
        return context.get("EVB:" + name, timeout=10)

    def state():
        return get("STATE").raw.value

    other = apart()
    try:
        evbd.wait_for(lambda: is_ready(control))
        # A command that is refused is an error with its reason.
        with pytest.raises(Exception, match="refused by"):
            context.put("EVB:STOP", "now", timeout=10)
        context.put("EVB:START", "from a panel", timeout=20)
        follows(state, lambda state: state == "Running", "state")
        before = control.status()
        assert before["annotation"]["comment"] == "from a panel"
        time.sleep(WITHIN)
        events, after = get("EVENTS"), control.status()
        assert before["survey"]["events"]["complete"] <= events <= after["survey"]["events"]["complete"]
        assert events > 0 and get("RUN") == after["run"]
        follows(lambda: get("EVENT_RATE"), lambda rate: rate == pytest.approx(200, rel=0.3), "rate of events")
        # It comes with the reports of builders, about once a second.
        follows(lambda: get("PAYLOAD_RATE"), lambda rate: rate > 50_000, "rate of payload")
        assert get("PROBLEMS").severity == 0 and get("PROBLEMS") == 0, str(get("PROBLEM"))
        # The alarm rises with a source that is gone, and clears when it is back.
        other.process.kill()
        other.process.wait()
        evbd.wait_for(lambda: control.status()["problems"])
        raised = follows(lambda: get("PROBLEMS"), lambda count: count.severity > 0, "alarm")
        assert raised >= 1 and "source 2" in raised.raw.alarm.message
        assert "source 2" in get("PROBLEM").raw.value
        other = apart()
        evbd.wait_for(lambda: not any("source 2" in one["subject"] for one in control.status()["problems"]))
        follows(lambda: get("PROBLEMS"), lambda count: "source 2" not in count.raw.alarm.message, "alarm")
        context.put("EVB:PAUSE", "x", timeout=10)
        follows(state, lambda state: state == "Paused", "state")
        context.put("EVB:RESUME", "x", timeout=10)
        follows(state, lambda state: state == "Running", "state")
        context.put("EVB:STOP", "x", timeout=10)
        evbd.wait_for(lambda: control.status()["state"] == "Configured")
        follows(state, lambda state: state == "Configured", "state")
        follows(lambda: get("PROBLEMS"), lambda count: count == len(control.status()["problems"]), "problems")
    finally:
        other.process.kill()
        other.process.wait()
    # Old values must not pass for present ones.
    evbd.process.kill()
    evbd.process.wait()
    follows(lambda: get("STATE"), lambda value: value.severity == 3, "alarm INVALID")
