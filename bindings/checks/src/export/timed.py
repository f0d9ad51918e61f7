"""Runs a command, and prints its duration, its largest resident memory and its exit code."""

import json
import os
import subprocess
import sys
import time

began = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
seconds = time.perf_counter() - began
code = os.waitstatus_to_exitcode(status)
print(json.dumps({"seconds": seconds, "memory_kib": usage.ru_maxrss, "code": code}))
