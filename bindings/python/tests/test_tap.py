"""Events of a run that goes on."""

import socket

import pytest
from conftest import Evbd, content, is_ready

import evb

SYSTEM = """
[run]
events = 500
[control]
listen = "127.0.0.1:{control}"
[supervisor]
listen = "127.0.0.1:{port}"
trigger = {{ kind = "periodic", rate = "1 kHz" }}
[[source]]
ids = "1-2"
input = {{ kind = "generator", size = "100 B" }}
[[builder]]
id = 1
listen = "127.0.0.1:{builder}"
sink = {{ kind = "file", path = "{folder}/out" }}
tap = {{ listen = "127.0.0.1:{tap}", key_file = "{folder}/key" }}
"""


@pytest.fixture
def system(tmp_path, free_ports):
    port, control, builder = free_ports
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        at = free.getsockname()[1]
    (tmp_path / "key").write_text("0123456789abcdef\n")
    (tmp_path / "key").chmod(0o600)
    text = SYSTEM.format(port=port, control=control, builder=builder, tap=at, folder=tmp_path)
    with Evbd(tmp_path, text) as evbd:
        lead = evb.Control(f"http://127.0.0.1:{control}")
        evbd.wait_for(lambda: is_ready(lead))
        yield lead, f"http://127.0.0.1:{at}", tmp_path


def test_the_events_of_a_tap_are_those_of_the_files(system):
    lead, url, folder = system
    whole, share = evb.tap(lead.url, key_file=folder / "key"), evb.tap(url, 0.2, key_file=folder / "key")
    lead.start()
    seen = content(whole)
    assert len(seen) == 500
    sizes = [len(batch) for batch in share.batches(50)]
    lead.wait_while("Running")
    lead.wait_while("Stopping")
    assert seen == content(evb.open(folder / "out"))
    (counts,) = share.counts().values()
    assert counts["seen"] == 500 == counts["sent"] + counts["sampled_out"] and counts["sent"] == sum(sizes) < 200


def test_columns_and_an_early_end(system):
    numpy = pytest.importorskip("numpy")
    lead, url, folder = system
    with evb.tap(url, key_file=folder / "key") as tap:
        lead.start()
        columns = next(tap.batches(20)).columns()
        assert len(columns.event) == 20 and set(columns.source) == {1, 2} and numpy.all(columns.length == 100)
        assert next(iter(tap)).id > int(columns.event[-1])
    assert not list(tap)


def test_who_has_no_key_is_told_so(system):
    _, url, folder = system
    with pytest.raises(evb.ControlError, match="401.*requires a token"):
        evb.tap(url)
    with pytest.raises(evb.ControlError, match="400.*shares above 0"):
        evb.tap(url, 2.0, key_file=folder / "key")
    with pytest.raises(evb.ControlError, match="no tap at"):
        evb.tap("http://127.0.0.1:1")
