"""A web server on loopback for tests of downloads: it serves the files of a folder, with ranges, and misbehaves as it is told."""

import base64
import http.server
import threading


class FileServer(http.server.ThreadingHTTPServer):
    """`faults[name]` is a list of what the next requests of that file meet, one each; then all is well.

    A fault is a function of the handler and the bytes that are to be sent, which answers in its way.
    `credentials` is "NAME:PASSWORD", without which nobody is served."""

    daemon_threads = True

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.faults, self.requests, self.is_free = folder, {}, [], threading.Event()
        self.credentials, self.signatures = None, []
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)
        self.thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_):
        """A client that hangs up is what these tests are about."""

    def asked_for(self, name):
        """The ranges that were asked for of a file, None: all of it."""
        return [span for asked, span in self.requests if asked == name]

    def close(self):
        self.is_free.set()
        self.shutdown()
        self.server_close()
        self.thread.join()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        name = self.path.rsplit("/", 1)[1]
        span = self.headers.get("Range")
        self.server.requests.append((name, span))
        file = self.server.folder / name
        fault = self.server.faults.get(name, [])
        if not self.may_enter():
            self.send_error(401)
        elif fault:
            fault.pop(0)(self, file.read_bytes() if file.is_file() else b"")
        elif file.is_file():
            self.send_file(file.read_bytes())
        else:
            self.send_error(404)

    def may_enter(self):
        self.server.signatures.append(self.headers.get("Authorization"))
        wanted = self.server.credentials
        return wanted is None or self.headers.get("Authorization") == f"Basic {base64.b64encode(wanted.encode()).decode()}"

    def first_byte(self):
        span = self.headers.get("Range")
        return int(span.removeprefix("bytes=").rstrip("-")) if span else 0

    def send_file(self, content):
        first = self.first_byte()
        if first >= len(content) > 0:
            return self.send_error(416)
        self.answer(206 if first else 200, len(content) - first, content[first:])
        return None

    def answer(self, status, announced, body):
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {self.first_byte()}-{self.first_byte() + announced - 1}/*")
        self.send_header("Content-Length", str(announced))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def hang_up(self):
        self.close_connection = True

    def log_message(self, *_):
        pass


# Faults

def cut_in_the_middle(handler, content):
    """Announces all and ends after half of it."""
    first = handler.first_byte()
    handler.answer(206 if first else 200, len(content) - first, content[first:first + (len(content) - first) // 2])
    handler.hang_up()


def has_no_rest(handler, content):
    """As nginx answers who asks for what lies behind the end."""
    body = b"416"
    handler.send_response(416)
    handler.send_header("Content-Range", f"bytes */{len(content)}")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def announce_too_much(handler, content):
    handler.answer(200, 2 * len(content), content)
    handler.hang_up()


def announce_too_little(handler, content):
    handler.answer(200, len(content) // 2, content)
    handler.hang_up()


def never_end(handler, _):
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(bytes(1 << 16))
    except OSError:
        handler.hang_up()


def ignore_ranges(handler, content):
    handler.answer(200, len(content), content)


def say_nothing(handler, _):
    """Takes the request and is silent until the server is closed."""
    handler.server.is_free.wait()
    handler.hang_up()


def refuse(status):
    def fault(handler, _):
        handler.send_error(status)
    return fault


def redirect(target):
    def fault(handler, _):
        handler.send_response(302)
        handler.send_header("Location", target)
        handler.send_header("Content-Length", "0")
        handler.end_headers()
    return fault
