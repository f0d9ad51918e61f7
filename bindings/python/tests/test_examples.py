"""The examples run, and their types are right."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Evbd, is_ready
from test_control import SYSTEM, answers

import evb

EXAMPLES = Path(__file__).parent.parent / "examples"
TUTORIAL = Path(__file__).parents[3] / "docs/tutorial/notebook.md"


def run(name, *arguments):
    command = [sys.executable, EXAMPLES / name, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_readout_and_analysis(tmp_path):
    assert run("readout.py", tmp_path, 200) == "200 of 200 assigned events complete\n"
    pytest.importorskip("numpy")
    lines = run("analyse.py", tmp_path).splitlines()
    assert [line.split(":")[0] for line in lines] == ["source 1", "source 2"]
    for line in lines:
        assert "200 fragments" in line and 40 <= int(line.split()[-1]) < 50


def test_run_control(tmp_path, free_ports):
    port, control_port, builder = free_ports
    control = evb.Control(f"http://127.0.0.1:{control_port}")
    with Evbd(tmp_path, SYSTEM.format(port=port, control=control_port, builder=builder, token="")) as evbd:
        evbd.wait_for(lambda: answers(control))
        lines = run("run_control.py", control.url, 2, 0.5).splitlines()
    assert len(lines) == 2 and all("assigned events complete" in line for line in lines)


def test_the_types_are_right():
    pytest.importorskip("mypy")
    pytest.importorskip("numpy")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", *EXAMPLES.glob("*.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_a_mistake_of_types_is_found(tmp_path):
    pytest.importorskip("mypy")
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import evb\n\nevb.Source('daq0:7000', '1').push(1, 'text')\nprint(evb.open('a').event(1).sources)\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", wrong]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.count("error:") == 3, done.stdout


def executed(name, address="127.0.0.1:7900"):
    """Run a notebook, with another address of run control; return the sources of its cells and what they printed."""
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    pytest.importorskip("numpy")
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    sources = [cell.source for cell in notebook.cells]
    for cell in notebook.cells:
        cell.source = cell.source.replace("127.0.0.1:7900", address)
    nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    return sources, [output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", [])]


def test_the_notebook_runs():
    _, texts = executed("events.ipynb")
    assert any(text.startswith("1000 events,") for text in texts)


def test_the_notebook_fills_a_histogram_while_a_run_goes_on(tmp_path, free_ports):
    page = TUTORIAL.read_text()
    text = page.split("```toml live.toml\n")[1].split("```")[0].replace("out/live", str(tmp_path / "live"))
    port, control, builder = free_ports
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        tap = free.getsockname()[1]
    for old, new in ((7000, port), (7900, control), (7101, builder), (7301, tap)):
        text = text.replace(f":{old}", f":{new}")
    lead = evb.Control(f"http://127.0.0.1:{control}")
    with Evbd(tmp_path, text) as evbd:
        evbd.wait_for(lambda: is_ready(lead))
        sources, texts = executed("online.ipynb", f"127.0.0.1:{control}")
    lines = "".join(texts).splitlines()
    assert lines[-1] == "4000 fragments" and len(lines) == 21
    peak, other = (len(lines[index].partition("#")[2]) for index in (6, 13))
    assert peak == 49 and other > 15 and "#" not in lines[0]
    assert f"\n{sources[1]}\n```\n" in page
