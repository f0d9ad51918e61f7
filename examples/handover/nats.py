"""Hands the events of a builder over to NATS JetStream, and loses none.

    python3 nats.py 127.0.0.1:7401 nats://127.0.0.1:4222 --stream EVB --subject evb.events

The builder has sink = { kind = "socket", address = "127.0.0.1:7401" }. Each event becomes a message
whose payload is one JSON line about the event, followed by the payloads of its fragments. An event is
acknowledged to the builder only when JetStream has answered that it is stored, so this program and the
NATS server may be killed at any time. The message id is the run id and the event id: JetStream removes
an event that is sent twice within its window for doubles (--window).

Needs the package nats-py.
"""

import argparse
import asyncio
import json
import os
import sys

# A file of the same name as a package hides it.
sys.path = [path for path in sys.path if os.path.realpath(path or ".") != os.path.dirname(os.path.realpath(__file__))]

import evb  # noqa: E402
import nats  # noqa: E402
from nats.js.api import StreamConfig  # noqa: E402
from nats.js.errors import BadRequestError  # noqa: E402

PAUSE = 0.2
"""Seconds before a message that was not stored is sent again."""


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


async def store(stream, subject, event):
    """Send an event until JetStream has stored it; returns true if JetStream had it already."""
    headers = {"Nats-Msg-Id": f"{event.run_id}-{event.id}"}
    while True:
        try:
            return bool((await stream.publish(subject, message(event), timeout=2, headers=headers)).duplicate)
        except Exception as error:
            # The server is away, restarts, or has no room: the builder holds its events meanwhile.
            print(f"event {event.id} is not stored yet: {error!r}", file=sys.stderr, flush=True)
            await asyncio.sleep(PAUSE)


async def hand_over(options):
    """Store the events of all builders that connect, several at a time."""
    client = await nats.connect(options.server, max_reconnect_attempts=-1, reconnect_time_wait=PAUSE)
    stream = client.jetstream()
    config = StreamConfig(name=options.stream, subjects=[options.subject], duplicate_window=options.window)
    while True:
        try:
            await stream.add_stream(config)
            break
        except BadRequestError as error:
            sys.exit(f"stream {options.stream}: {error}; it exists with other settings: give another --stream")
        except Exception as error:
            print(f"stream {options.stream} cannot be made yet: {error!r}", file=sys.stderr, flush=True)
            await asyncio.sleep(PAUSE)
    doubles = stored = 0
    with evb.receive(options.address, options.builders) as consumer:
        print("takes events at", consumer.address, flush=True)
        events, free = consumer.events(), asyncio.Semaphore(options.at_once)

        async def take(event):
            nonlocal doubles, stored
            try:
                doubles += await store(stream, options.subject, event)
                stored += 1
                consumer.done(event)
            finally:
                free.release()

        tasks = set()
        # The iterator waits for the builder, so another thread asks it.
        while (event := await asyncio.to_thread(next, events, None)) is not None:
            await free.acquire()
            task = asyncio.create_task(take(event))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)
    await client.drain()
    print(f"{stored} events are stored, of which JetStream had {doubles} already", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("address", help="address of the builder's sink: host:port, or path of a Unix socket")
    parser.add_argument("server", help="the NATS server, for example nats://127.0.0.1:4222")
    parser.add_argument("--stream", default="EVB", help="name of the JetStream stream, which is made if it is missing")
    parser.add_argument("--subject", default="evb.events", help="subject of the messages")
    parser.add_argument("--builders", type=int, default=None, help="end when that many builders have ended their run")
    parser.add_argument("--at-once", type=int, default=256, help="most messages that wait for JetStream")
    parser.add_argument("--window", type=float, default=600, help="seconds in which JetStream finds doubles")
    asyncio.run(hand_over(parser.parse_args()))


if __name__ == "__main__":
    main()
