"""Events that go to Kafka, while the program that hands them over is killed, and the brokers freeze.

The brokers are the mock cluster of librdkafka, which has the protocol of Kafka and keeps messages in memory.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest
from conftest import Evbd, Killed

import evb

kafka = pytest.importorskip("confluent_kafka")

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "handover" / "kafka.py"
KILLS = int(os.environ.get("EVB_KILLS", "6"))
EVENTS = 300 * KILLS
SLOTS = 16
SYSTEM = """
[run]
events = {events}
[supervisor]
listen = "127.0.0.1:{port}"
trigger = {{ kind = "periodic", rate = "200 Hz" }}
slots = {slots}
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
CLUSTER = """
import time
from confluent_kafka import Producer
cluster = Producer({"test.mock.num.brokers": 3, "log_level": 0})
brokers = cluster.list_topics(timeout=10).brokers.values()
print(",".join(f"{one.host}:{one.port}" for one in brokers), flush=True)
time.sleep(600)
"""


def stored(brokers):
    """Return the payloads of all messages of the topic with their keys."""
    consumer = kafka.Consumer({"bootstrap.servers": brokers, "group.id": "check"})
    topic = consumer.list_topics("evb-events", timeout=10).topics["evb-events"]
    partitions = [kafka.TopicPartition(topic.topic, one, kafka.OFFSET_BEGINNING) for one in topic.partitions]
    held = 0
    for one in partitions:
        first, end = consumer.get_watermark_offsets(one, timeout=10)
        assert first == 0, "the mock cluster has forgotten messages"
        held += end
    consumer.assign(partitions)
    messages = []
    while len(messages) < held:
        message = consumer.poll(10)
        assert message is not None and not message.error(), message
        messages.append((message.key().decode(), message.value()))
    consumer.close()
    return messages


def test_no_event_is_lost_while_the_program_is_killed_and_brokers_freeze(tmp_path, free_ports):
    port, builder, _ = free_ports
    text = SYSTEM.format(events=EVENTS, slots=SLOTS, port=port, builder=builder, folder=tmp_path)
    chance = random.Random(7)
    with Killed(tmp_path / "kafka.log", sys.executable, "-c", CLUSTER) as cluster:
        until = time.monotonic() + 10
        while not (brokers := cluster.log.read_text().strip()) and time.monotonic() < until:
            time.sleep(0.05)
        command = sys.executable, str(EXAMPLE), str(tmp_path / "consumer"), brokers, "--builders", "1"
        with Killed(tmp_path / "consumer.log", *command) as consumer, Evbd(tmp_path, text) as evbd:
            for _ in range(KILLS):
                time.sleep(chance.uniform(0.5, 1))
                cluster.process.send_signal(signal.SIGSTOP)
                time.sleep(chance.uniform(0.1, 0.5))
                # It waits for answers of the brokers now.
                consumer.kill()
                cluster.process.send_signal(signal.SIGCONT)
                consumer.start()
            assert evbd.process.wait(200) == 0, evbd.log.read_text()
            assert consumer.process.wait(30) == 0, consumer.log.read_text()
        messages = stored(brokers)
    events = {f"{event.run_id}-{event.id}": event for event in evb.open(tmp_path / "out")}
    assert len(events) == EVENTS and {key for key, _ in messages} == events.keys()
    for key, value in messages:
        head, _, payload = value.partition(b"\n")
        expected = [bytes(one.payload) for one in events[key].fragments]
        assert payload == b"".join(expected)
        assert [part[2] for part in json.loads(head)["fragments"]] == [*map(len, expected)]
    doubles = len(messages) - EVENTS
    print(f"{EVENTS} events, {doubles} doubles, {KILLS} kills:", consumer.log.read_text())
    # Only events that waited for an answer when the program died come again.
    assert doubles <= SLOTS * KILLS
