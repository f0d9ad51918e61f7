"""Front ends of protocol 2, one for each argument SOURCE:PORT; standard input has what the boards send, by source."""

import queue
import socket
import struct
import sys
import threading
import time

MARK = b"\xff\xff\xff\xff"
BOARD = struct.Struct("<HIQQ")  # source, payload length, event id, timestamp
HEAD = struct.Struct("<IQQ")
STARTED = 1


def connect(port, name):
    """Returns a connection on which evb has told its run, and the front end has stated it."""
    while True:
        try:
            front_end = socket.create_connection(("127.0.0.1", port))
            front_end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            front_end.sendall(struct.pack("<4sBBB13x", MARK, 2, len(name), 0) + name)
            message = front_end.recv(32, socket.MSG_WAITALL)
            if len(message) == 32 and message[0] == STARTED:
                front_end.sendall(MARK + message[8:24])
                return front_end
            front_end.close()
        except OSError:
            pass
        time.sleep(0.01)


def serve(source, port, sent):
    """Sends the fragments of a board, each once; one that fails goes over the next connection."""
    name = b"front end %d" % source
    front_end = connect(port, name)
    while True:
        event, stamp, payload = sent.get()
        while True:
            try:
                front_end.sendall(HEAD.pack(len(payload), event, stamp) + payload)
                break
            except OSError:
                front_end.close()
                front_end = connect(port, name)


def main():
    boards = {}
    for source, port in (argument.split(":") for argument in sys.argv[1:]):
        boards[int(source)] = queue.SimpleQueue()
        given = (int(source), int(port), boards[int(source)])
        threading.Thread(target=serve, args=given, daemon=True).start()
    while head := sys.stdin.buffer.read(BOARD.size):
        source, length, event, stamp = BOARD.unpack(head)
        boards[source].put((event, stamp, sys.stdin.buffer.read(length)))


main()
