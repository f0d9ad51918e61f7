"""Event files that go to S3 and XRootD while the servers are killed, and entries of runs in a log book."""

import concurrent.futures
import contextlib
import email
import http.server
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from conftest import Evbd, Killed

boto3 = pytest.importorskip("boto3")
checksums = pytest.importorskip("awscrt.checksums")
moto = pytest.importorskip("moto.server")

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
UPLOAD, ELOG = EXAMPLES / "upload" / "upload.py", EXAMPLES / "logbook" / "elog.py"
KILLS = int(os.environ.get("EVB_KILLS", "6"))
USUAL = "nice", "-n", "-19"
"""Takes back the low priority of hooks, with which Python takes half a minute to start beside compilers."""
SYSTEM = """
[run]
events = {events}
[supervisor]
listen = "127.0.0.1:{port}"
trigger = {{ kind = "periodic", rate = "45 Hz" }}
[[source]]
ids = "1-2"
input = {{ kind = "generator", size = "50 kB" }}
[[builder]]
id = 1
listen = "127.0.0.1:{builder}"
sink = {{ kind = "file", path = "{folder}/out", rotate = "2 MB" }}
[hooks]
file_closed = {upload}
timeout = "2 min"
"""
GATEWAY = """
import asyncio, sys

async def carry(reader, writer):
    # So slowly that kills strike in between.
    while data := await reader.read(65536):
        writer.write(data)
        await asyncio.sleep(0.005)
    writer.close()

async def take(reader, writer):
    there = await asyncio.open_connection("127.0.0.1", int(sys.argv[2]))
    await asyncio.gather(carry(reader, there[1]), carry(there[0], writer))

async def main():
    await (await asyncio.start_server(take, "127.0.0.1", int(sys.argv[1]))).serve_forever()

asyncio.run(main())
"""
"""A program in front of a server."""


def free_port():
    """Return a port of loopback that is free at the moment."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture(autouse=True)
def keys(monkeypatch):
    """Keys of S3, and a log of evbd that has what hooks say."""
    for name, text in {"ACCESS_KEY_ID": "evb", "SECRET_ACCESS_KEY": "evb", "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", text)
    monkeypatch.setenv("EVBD_LOG", "info")


class S3:
    """A bucket behind a gateway, which is killed, as the server of moto keeps its objects in memory."""

    def __init__(self, folder, port):
        self.store = moto.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        self.store.start()
        own = "http://{}:{}".format(*self.store.get_host_and_port())
        # The objects belong to the process, not to the server.
        urllib.request.urlopen(f"{own}/moto-api/reset", b"").close()
        self.client = boto3.client("s3", endpoint_url=own)
        self.client.create_bucket(Bucket="daq")
        self.server = Killed(folder / "gateway.log", sys.executable, "-c", GATEWAY, str(port), own.rpartition(":")[2])
        self.upload = [sys.executable, str(UPLOAD), "s3://daq/run/raw", "--endpoint", f"http://127.0.0.1:{port}"]

    def content(self):
        """Return all objects."""
        listed = self.client.list_objects_v2(Bucket="daq").get("Contents", [])
        return {one["Key"]: self.client.get_object(Bucket="daq", Key=one["Key"])["Body"].read() for one in listed}

    def replace(self, name, content):
        """Write an object as another program would, which gives no CRC-64/NVME."""
        self.client.put_object(Bucket="daq", Key=name, Body=content)

    def close(self):
        self.store.stop()


class XRootD:
    """An XRootD server that is killed, behind a gateway that makes it slow."""

    def __init__(self, folder, port):
        server = shutil.which("xrootd")
        if server is None or shutil.which("xrdcp") is None:
            pytest.skip("xrootd is missing")
        self.time = time.time()
        # It refuses to run as root, and another user must reach its files.
        self.store = Path(tempfile.mkdtemp(prefix="evb-xrootd-"))
        (self.store / "data").mkdir()
        for its in (self.store, self.store / "data"):
            its.chmod(0o777)
        own = free_port()
        self.gateway = subprocess.Popen([sys.executable, "-c", GATEWAY, str(port), str(own)], stderr=subprocess.DEVNULL)
        config = self.store / "xrootd.cfg"
        config.write_text(
            f"all.export /run\noss.localroot {self.store}/data\nxrd.port {own}\nxrootd.chksum adler32\n"
            f"all.adminpath {self.store}/admin\nall.pidpath {self.store}/admin\n"
        )
        user = ["-R", "nobody"] if os.getuid() == 0 else []
        self.server = Killed(folder / "xrootd.log", server, "-c", str(config), *user)
        self.upload = [sys.executable, str(UPLOAD), f"root://127.0.0.1:{port}//run/raw"]

    def content(self):
        """Return all files; those that are not whole, and may go at any time, without content."""
        data = self.store / "data"
        found = [one for one in data.rglob("*") if one.is_file()]
        return {str(one.relative_to(data)): b"" if one.suffix == ".part" else one.read_bytes() for one in found}

    def replace(self, name, content):
        """Write a file, so late that the server computes its checksum again."""
        path = self.store / "data" / name
        self.time += 10
        path.write_bytes(content)
        os.utime(path, (self.time, self.time))

    def close(self):
        self.gateway.kill()
        self.gateway.wait()
        shutil.rmtree(self.store)


@pytest.fixture(params=[S3, XRootD])
def store(request, tmp_path):
    """A store to which files are uploaded."""
    made = request.param(tmp_path, free_port())
    with contextlib.closing(made), made.server:
        yield made


def call(store, path, **other):
    """Run the upload of a file by hand; return its exit code, and what it says."""
    checksum = f"{checksums.crc64nvme(path.read_bytes()):016x}"
    told = {"path": str(path), "size": path.stat().st_size, "crc64_nvme": checksum, **other}
    command = [*store.upload, "--patience", "1"]
    done = subprocess.run(command, input=json.dumps(told), capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_every_file_is_uploaded_once_while_the_server_is_killed(store, tmp_path, free_ports):
    port, builder, _ = free_ports
    upload = json.dumps([*USUAL, *store.upload])
    # So long that all kills fall into the run.
    text = SYSTEM.format(events=45 * KILLS, port=port, builder=builder, folder=tmp_path, upload=upload)
    chance = random.Random(7)
    kills = 0
    with Evbd(tmp_path, text) as evbd:
        while kills < KILLS and evbd.process.poll() is None:
            time.sleep(chance.uniform(0.2, 0.6))
            store.server.kill()
            time.sleep(chance.uniform(0.1, 0.9))
            store.server.start()
            kills += 1
        assert evbd.process.wait(300) == 0, evbd.log.read_text()
    log = evbd.log.read_text()
    local = {f"run/raw/{one.name}": one.read_bytes() for one in (tmp_path / "out").glob("*.evb")}
    assert len(local) >= 2 * KILLS and kills == KILLS
    # All bytes of all files, and nothing else, such as a part of a file.
    uploaded = store.content()
    assert uploaded.keys() == local.keys(), log
    assert [name for name in local if uploaded[name] != local[name]] == []
    assert log.count(" is at ") == len(local), log
    unanswered, sent = log.count(" does not take "), log.count(": sent ")
    print(f"{len(local)} files, {kills} kills, {unanswered} attempts without an answer, {sent} sent")
    assert unanswered > 0, "no kill has struck an upload"


def test_a_file_that_is_there_is_left_alone(store, tmp_path):
    ours, name = tmp_path / "a.evb", "run/raw/a.evb"
    # So large that S3 gets it in several parts.
    ours.write_bytes(random.Random(1).randbytes(9 << 20))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        uploading = pool.submit(call, store, ours)
        while not uploading.done():
            # Nobody sees a part of it under its name.
            assert store.content().get(name, ours.read_bytes()) == ours.read_bytes()
            time.sleep(0.01)
    code, said = uploading.result()
    assert code == 0 and "sent" in said and store.content() == {name: ours.read_bytes()}, said
    code, said = call(store, ours)
    assert code == 0 and "sent" not in said, said
    # Another program has made the copy.
    store.replace(name, ours.read_bytes())
    code, said = call(store, ours)
    assert code == 0 and "sent" not in said, said
    # Other content of the same size.
    other = b"x" + ours.read_bytes()[1:]
    store.replace(name, other)
    code, said = call(store, ours)
    assert code == 1 and "other content" in said and store.content() == {name: other}, said
    # The file has changed.
    code, said = call(store, ours, size=1)
    assert code == 1 and "has changed" in said, said
    store.server.kill()
    code, said = call(store, ours)
    assert code == 1 and "does not take" in said, said
    store.server.start()


class Book(http.server.BaseHTTPRequestHandler):
    """A log book that refuses the first entry, and answers the others as ELOG does."""

    entries = []

    def do_POST(self):
        head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        form = email.message_from_bytes(head + self.rfile.read(int(self.headers["Content-Length"])))
        fields = {part.get_param("name", header="Content-Disposition"): part.get_payload() for part in form.get_payload()}
        self.entries.append(fields)
        self.send_response(302 if len(self.entries) > 1 else 200)
        self.send_header("Location", f"http://book/shifts/{len(self.entries)}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Say nothing."""


def test_a_run_is_entered_in_the_log_book(tmp_path, free_ports):
    port, builder, _ = free_ports
    text = SYSTEM.format(events=30, port=port, builder=builder, folder=tmp_path, upload='["true"]')
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Book) as book:
        threading.Thread(target=book.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{book.server_port}/shifts/"
        elog = [*USUAL, sys.executable, str(ELOG), address, "--field", "Type=Run"]
        with Evbd(tmp_path, f"{text}\nrun_ends = {json.dumps(elog)}") as evbd:
            assert evbd.process.wait(60) == 0, evbd.log.read_text()
        book.shutdown()
    refused, made = Book.entries
    assert refused == made and "run 1 is at http://book/shifts/2" in evbd.log.read_text()
    assert (made["cmd"], made["exp"], made["Type"], made["Author"]) == ("Submit", "shifts", "Run", "evbd")
    assert made["Subject"].startswith("Run 1 (id ")
    assert "30 of 30 assigned events complete" in made["Text"] and "triggered" in made["Text"]
