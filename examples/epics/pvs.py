"""Serves the state of runs as process variables of EPICS (PV Access), and takes commands from them.

    python3 pvs.py --control http://127.0.0.1:7900 --prefix EVB:

| process variable | value | alarm |
|---|---|---|
| EVB:STATE | state of run control, such as Running | MAJOR in state Error |
| EVB:RUN | number of the run | |
| EVB:EVENTS | complete events of the run | |
| EVB:EVENT_RATE, EVB:PAYLOAD_RATE | events and payload bytes in a second | |
| EVB:DEAD_TIME | percentage of the triggers that were inhibited | |
| EVB:PROBLEMS | number of problems | MAJOR or MINOR as the worst of them, whose text is the message |
| EVB:PROBLEM | the worst problem and its remedy | the same |
| EVB:START | write a comment to start a run with it | |
| EVB:STOP, EVB:PAUSE, EVB:RESUME | write anything to give the command | |

All have the alarm INVALID while evbd does not answer. A command that evbd refuses is an error of the write, with the
reason and the remedy. With --token-file, the commands carry the token that evbd asks for.

Needs the packages evb and p4p.
"""

import argparse
import time

import evb
from p4p.nt import NTScalar
from p4p.server import Server
from p4p.server.thread import SharedPV

NONE, MINOR, MAJOR, INVALID = range(4)
SEVERITY = {"warning": MINOR, "bad": MAJOR}
DEVICE = 1
"""The kind of alarm: something is wrong with what the variable describes."""

VALUES = {
    "STATE": ("s", ""),
    "RUN": ("l", 0),
    "EVENTS": ("l", 0),
    "EVENT_RATE": ("d", 0.0),
    "PAYLOAD_RATE": ("d", 0.0),
    "DEAD_TIME": ("d", 0.0),
    "PROBLEMS": ("i", 0),
    "PROBLEM": ("s", ""),
}


def values(status):
    """Return the value, the severity and the message of each process variable."""
    problems, rates, survey = (status.get(key) or {} for key in ("problems", "rates", "survey"))
    worst = problems[0] if problems else {}
    severity = SEVERITY.get(worst.get("severity"), NONE)
    text = ": ".join(worst[key] for key in ("subject", "text") if worst.get(key))
    advised = "; ".join(part for part in (text, worst.get("remedy")) if part)
    state = status["state"]
    return {
        "STATE": (state, MAJOR if state == "Error" else NONE, ""),
        "RUN": (status.get("run") or 0, NONE, ""),
        "EVENTS": (survey.get("events", {}).get("complete", 0), NONE, ""),
        "EVENT_RATE": (rates.get("events_per_s", 0.0), NONE, ""),
        "PAYLOAD_RATE": (rates.get("bytes_per_s", 0.0), NONE, ""),
        "DEAD_TIME": (100 * rates.get("dead_time_fraction", 0.0), NONE, ""),
        "PROBLEMS": (len(problems), severity, text),
        "PROBLEM": (advised, severity, text),
    }


def alarm(severity, message):
    """Return the alarm of a process variable."""
    return {"severity": severity, "status": DEVICE if severity else 0, "message": message}


class Command:
    """Gives a command to evbd when a client writes to its process variable."""

    def __init__(self, give):
        self.give = give

    def put(self, variable, operation):
        """Give the command; the write ends with its result."""
        text = operation.value().raw.value
        try:
            self.give(text)
        except evb.Error as error:
            return operation.done(error=str(error))
        variable.post(text, timestamp=time.time())
        operation.done()


def main():
    """Serve the process variables until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--control", default="http://127.0.0.1:7900", help="address of evbd's run control")
    parser.add_argument("--token-file", help="file with the token for commands")
    parser.add_argument("--prefix", default="EVB:", help="begin of the names of the process variables")
    parser.add_argument("--every", type=float, default=0.5, help="seconds between two looks at the status")
    given = parser.parse_args()
    control = evb.Control(given.control, token_file=given.token_file)
    shown = {name: SharedPV(nt=NTScalar(kind), initial=value) for name, (kind, value) in VALUES.items()}
    commands = {
        "START": lambda comment: control.start(comment=comment),
        "STOP": lambda _: control.stop(wait=False),
        "PAUSE": lambda _: control.pause(),
        "RESUME": lambda _: control.resume(),
    }
    asked = {name: SharedPV(nt=NTScalar("s"), initial="", handler=Command(give)) for name, give in commands.items()}
    variables = {given.prefix + name: variable for name, variable in {**shown, **asked}.items()}
    with Server(providers=[variables]):
        print(f"serves {', '.join(variables)}", flush=True)
        while True:
            try:
                for name, (value, severity, message) in values(control.status()).items():
                    shown[name].post({"value": value, "alarm": alarm(severity, message)}, timestamp=time.time())
            except evb.Error as error:
                for variable in shown.values():
                    variable.post({"alarm": alarm(INVALID, str(error))}, timestamp=time.time())
            time.sleep(given.every)


if __name__ == "__main__":
    main()
