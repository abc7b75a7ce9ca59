"""`ddprun store`: serves alone, tells its port, ends in order. Usage: command_test.py path/to/ddprun"""

import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from owned import own  # noqa: E402

DDPRUN = sys.argv.pop(1)
VALIDATE = b"\0" + struct.pack("<I", 0x3C85F7CE)


def start(*arguments, **options):
    return subprocess.Popen([DDPRUN, "store", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            **options)


def ping(port, host="127.0.0.1"):
    """True if a store answers there as PyTorch's would."""
    with socket.create_connection((host, port), timeout=10) as client:
        client.sendall(VALIDATE + b"\x0d" + struct.pack("<I", 4711))
        return client.recv(4, socket.MSG_WAITALL) == struct.pack("<I", 4711)


class StoreCommand(unittest.TestCase):
    def serve(self, *arguments, **options):
        return own(self, start(*arguments, **options))

    def end(self, store, with_signal=signal.SIGTERM):
        store.send_signal(with_signal)
        return store.wait(10)

    def test_the_first_line_is_the_port_and_sigterm_ends_it(self):
        store = self.serve("--port", "0")
        self.assertTrue(ping(int(store.stdout.readline())))
        self.assertEqual(self.end(store), 0)
        self.assertEqual(store.stdout.read() + store.stderr.read(), "")

    def test_sigint_ends_it_too(self):
        store = self.serve("--port", "0")
        store.stdout.readline()
        self.assertEqual(self.end(store, signal.SIGINT), 0)

    def test_it_ends_while_clients_are_connected(self):
        store = self.serve("--port", "0", "--host", "127.0.0.1")
        port = int(store.stdout.readline())
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(VALIDATE)
            self.assertEqual(self.end(store), 0)
            self.assertEqual(client.recv(1), b"")

    def test_a_port_in_use_is_named(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            store = self.serve("--port", str(port), "--host", "127.0.0.1")
            self.assertEqual(store.wait(10), 69)
            self.assertEqual(
                store.stderr.read(),
                f"ddprun: store: cannot listen on 127.0.0.1:{port}: Address already in use; end the program that holds "
                "the port, or choose another (0 takes any)\n")

    def test_an_inherited_socket_is_served(self):
        with socket.create_server(("127.0.0.1", 0)) as listening:
            fd = listening.fileno()
            port = listening.getsockname()[1]
            store = self.serve("--fd", str(fd), pass_fds=[fd])
            self.assertEqual(int(store.stdout.readline()), port)
        self.assertTrue(ping(port))
        self.assertEqual(self.end(store), 0)

    def test_a_descriptor_that_is_no_socket_is_refused(self):
        with open(os.devnull, "rb") as file:
            store = self.serve("--fd", str(file.fileno()), pass_fds=[file.fileno()])
            self.assertEqual(store.wait(10), 64)
            self.assertIn("Socket operation on non-socket; pass a bound TCP socket", store.stderr.read())


if __name__ == "__main__":
    unittest.main()
