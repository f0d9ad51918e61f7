"""Hands the events of a builder over to Kafka, and loses none.

    python3 kafka.py 127.0.0.1:7401 127.0.0.1:9092 --topic evb-events

The builder has sink = { kind = "socket", address = "127.0.0.1:7401" }. Each event becomes a message
whose payload is one JSON line about the event, followed by the payloads of its fragments. An event is
acknowledged to the builder only when all replicas of Kafka that are in step have stored it, so this
program and the brokers may be killed at any time. The key of the message is the run id and the event id.
Kafka stores each event once while this program lives; an event that waited for its answer when the
program died comes again, with the same key.

Needs the package confluent-kafka.
"""

import argparse
import json
import os
import sys
import threading
import time

import evb
from confluent_kafka import Producer

PAUSE = 0.1
"""Seconds after which a full queue is tried again."""


def message(event):
    """Return the payload of an event's message."""
    head = {
        "run": event.run,
        "run_id": event.run_id,
        "event": event.id,
        "builder": event.builder,
        "utc_ns": event.utc_ns,
        "missing": event.missing,
        "fragments": [[one.source, one.timestamp, len(one.payload)] for one in event.fragments],
    }
    return b"".join([json.dumps(head).encode(), b"\n", *(one.payload for one in event.fragments)])


def answers(producer):
    """Take Kafka's answers; the iterator over events waits for the builder meanwhile."""
    while True:
        producer.poll(PAUSE)


def hand_over(options):
    """Store the events of all builders that connect, many at a time."""
    # It tries for ever to store a message: the builder holds its events meanwhile.
    producer = Producer(
        {
            "bootstrap.servers": options.brokers,
            "enable.idempotence": True,
            "acks": "all",
            "message.timeout.ms": 0,
            "message.max.bytes": options.largest,
        }
    )
    threading.Thread(target=answers, args=(producer,), daemon=True).start()
    stored = 0
    with evb.receive(options.address, options.builders) as consumer:
        print("takes events at", consumer.address, flush=True)

        def taken(event, error):
            nonlocal stored
            if error is not None:
                # Kafka refuses the message for good. The builder keeps the event until the cause is away.
                print(f"event {event.id} is refused by Kafka: {error}", file=sys.stderr, flush=True)
                os._exit(1)
            stored += 1
            consumer.done(event)

        for event in consumer.events():
            key = f"{event.run_id}-{event.id}"
            answer = lambda error, _, event=event: taken(event, error)  # noqa: E731
            while True:
                try:
                    producer.produce(options.topic, message(event), key, on_delivery=answer)
                    break
                except BufferError:
                    time.sleep(PAUSE)
    print(f"{stored} events are stored", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("address", help="address of the builder's sink: host:port, or path of a Unix socket")
    parser.add_argument("brokers", help="brokers of Kafka to begin with, for example kafka1:9092,kafka2:9092")
    parser.add_argument("--topic", default="evb-events", help="topic of the messages")
    parser.add_argument("--builders", type=int, default=None, help="end when that many builders have ended their run")
    parser.add_argument("--largest", type=int, default=10**6, help="bytes of the largest message that the topic takes")
    hand_over(parser.parse_args())


if __name__ == "__main__":
    main()
