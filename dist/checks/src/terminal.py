"""Presses the tab key in a shell on a terminal, and says what the shell completes.

Usage: terminal.py SHELL FOLDER, where FOLDER is an unpacked archive of evbd. Prints a line
`RESULT 1 what` for every completion that is right, and `RESULT 0 what` for one that is not.
"""

import os
import pty
import select
import sys
import time

shell, folder = sys.argv[1:]
SETUP = {
    "bash": f". {folder}/share/bash-completion/completions/evbd",
    "zsh": f"fpath=({folder}/share/zsh/site-functions $fpath); autoload -Uz compinit; compinit -u -D; bindkey -e",
}
START = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}
# What is typed before the tab key, and the words that the shell must have after it.
CASES = [
    ("a command", "evbd provi", "evbd provision"),
    ("a command below a command", "evbd probe-buffer li", "evbd probe-buffer listen"),
    ("an option", "evbd run --her", "evbd run --here"),
    ("an option of a command below a command", "evbd probe-buffer listen --js", "evbd probe-buffer listen --json"),
]


def read(master, until, seconds):
    """Reads from the terminal until a text appears or the time is over."""
    text, end = "", time.monotonic() + seconds
    while time.monotonic() < end and until not in text:
        if select.select([master], [], [], 0.1)[0]:
            text += os.read(master, 65536).decode("utf-8", "replace")
    return text


child, master = pty.fork()
if child == 0:
    environment = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "TERM": "dumb", "HOME": "/nonexistent"}
    os.execvpe(START[shell][0], START[shell], environment)

failed = False
# What the shell prints differs from what it echoes, so that the two are not mistaken for each other.
os.write(master, f"PS1='$ '; {SETUP[shell]}; echo rea''dy\n".encode())
read(master, "ready", 30)
for what, typed, wanted in CASES:
    os.write(master, typed.encode() + b"\t")
    read(master, "\0", 1.5)
    # The completed line becomes arguments of printf. A word behind it shows that the shell has put a
    # blank there, as it does after the only possible completion.
    os.write(master, b"end\x01printf '<%s>' \n")
    words = "".join(f"<{word}>" for word in [*wanted.split(), "end"])
    said = read(master, words, 10)
    right = words in said
    failed |= not right
    print(f"RESULT {int(right)} {shell} completes {what}: {typed} + tab = {wanted}")
    if not right:
        print(repr(said))
os.write(master, b"exit\n")
sys.exit(failed)
