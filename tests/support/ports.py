"""Ports of this machine."""

import random
import socket


def free_port():
    """A port that was free a moment ago, and that the kernel gives to no outgoing connection: all nodes must be told the
    same one beforehand."""
    while True:
        port = random.randrange(10000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
