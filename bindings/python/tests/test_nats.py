"""Events that go to NATS JetStream, while NATS and the program that hands them over are killed."""

import asyncio
import json
import os
import random
import shutil
import sys
import time
from pathlib import Path

import pytest
from conftest import Evbd, Killed

import evb

nats = pytest.importorskip("nats")

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "handover" / "nats.py"
KILLS = int(os.environ.get("EVB_KILLS", "6"))
EVENTS = 400 * KILLS
SYSTEM = """
[run]
events = {events}
[supervisor]
listen = "127.0.0.1:{port}"
trigger = {{ kind = "periodic", rate = "200 Hz" }}
[[source]]
ids = "1-2"
input = {{ kind = "generator", size = "500 B" }}
[[builder]]
id = 1
listen = "127.0.0.1:{builder}"
give_up = "60 s"
sink = [
    {{ kind = "socket", address = "{folder}/consumer" }},
    {{ kind = "file", path = "{folder}/out" }},
]
"""


async def stored(url, count):
    """Return the heads of all messages of the stream by run and event, and the number of messages."""
    client = await nats.connect(url)
    stream = client.jetstream()
    held = (await stream.stream_info("EVB")).state.messages
    wanted = await stream.pull_subscribe("evb.events", "check")
    heads = {}
    while len(heads) < min(count, held):
        for message in await wanted.fetch(100, timeout=10):
            head, _, payload = message.data.partition(b"\n")
            head = json.loads(head)
            heads[head["run_id"], head["event"]] = (head, payload)
            await message.ack()
    await client.close()
    return heads, held


def test_no_event_is_lost_while_both_sides_are_killed(tmp_path, free_ports):
    server = shutil.which("nats-server", path=f"{os.environ['PATH']}:/usr/sbin")
    if server is None:
        pytest.skip("nats-server is missing")
    port, nats_port, builder = free_ports
    url = f"nats://127.0.0.1:{nats_port}"
    own = server, "-a", "127.0.0.1", "-p", str(nats_port), "-js", "-sd", str(tmp_path / "js")
    command = sys.executable, str(EXAMPLE), str(tmp_path / "consumer"), url, "--builders", "1"
    text = SYSTEM.format(events=EVENTS, port=port, builder=builder, folder=tmp_path)
    chance = random.Random(7)
    with Killed(tmp_path / "nats.log", *own) as broker, Killed(tmp_path / "consumer.log", *command) as consumer:
        with Evbd(tmp_path, text) as evbd:
            for _ in range(KILLS):
                for one in (consumer, broker):
                    time.sleep(chance.uniform(0.5, 1.2))
                    one.kill()
                    time.sleep(chance.uniform(0, 0.3))
                    one.start()
            assert evbd.process.wait(200) == 0, evbd.log.read_text()
            assert consumer.process.wait(30) == 0, consumer.log.read_text()
        heads, messages = asyncio.run(stored(url, EVENTS))
    events = {(event.run_id, event.id): event for event in evb.open(tmp_path / "out")}
    assert len(events) == EVENTS and heads.keys() == events.keys()
    for key, (head, payload) in heads.items():
        expected = [bytes(one.payload) for one in events[key].fragments]
        assert payload == b"".join(expected) and [part[2] for part in head["fragments"]] == [*map(len, expected)]
    print(f"{EVENTS} events, {messages} messages, {2 * KILLS} kills:", consumer.log.read_text())
    # JetStream finds doubles within its window, also after it was killed.
    assert messages == EVENTS
