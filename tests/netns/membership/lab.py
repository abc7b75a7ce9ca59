"""Hosts as network namespaces on one bridge: each with a name, a table of names, and a plug that can be pulled."""

import itertools
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))

from patience import patient  # noqa: E402


def skip(reason):
    print(f"\nSKIPPED: {reason}", file=sys.stderr)
    sys.exit(77)


def sh(*words, check=True):
    return subprocess.run(words, check=check, capture_output=True, text=True)


class Process:
    """A program on a host, with its output collected as it comes."""

    def __init__(self, words, environment):
        self.words = words
        self.child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      text=True, env=environment, start_new_session=True)
        self.lines = []
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.child.stdout:
            with self.changed:
                self.lines.append((time.monotonic(), line.rstrip("\n")))
                self.changed.notify_all()

    @property
    def text(self):
        with self.changed:
            return "\n".join(line for _, line in self.lines)

    def expect(self, text, count=1, within=20):
        """Waits for the count-th line that contains `text`; the moment it came."""
        within = patient(within)
        end = time.monotonic() + within
        with self.changed:
            while True:
                found = [at for at, line in self.lines if text in line]
                if len(found) >= count:
                    return found[count - 1]
                if not self.changed.wait(end - time.monotonic()) and time.monotonic() >= end:
                    break
        raise AssertionError(f"no {text!r} ({count}) within {within} s from {' '.join(self.words[-12:])}:\n{self.text}")

    def wait(self, within=20):
        within = patient(within)
        try:
            code = self.child.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {within} s: {' '.join(self.words[-12:])}\n{self.text}") from None
        self.reader.join(2)
        return code

    def kill(self):
        """The power cut of everything in it: the process is the first of its own pid namespace."""
        if self.child.poll() is None:
            os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait()
        self.reader.join(2)
        self.child.stdout.close()


class Host:
    def __init__(self, lab, name):
        self.lab, self.name = lab, name
        self.space = f"{lab.prefix}{name}"
        self.device = f"{lab.prefix}{name}v"
        self.addresses = []
        self.processes = []
        sh("ip", "netns", "add", self.space)
        self.inside("ip", "link", "set", "lo", "up")

    def inside(self, *words, check=True):
        return sh("ip", "netns", "exec", self.space, *words, check=check)

    def plug(self, *addresses, device=None):
        """A network card with these addresses."""
        device = device or self.device
        inner = f"e{len(self.addresses)}"
        sh("ip", "link", "add", device, "type", "veth", "peer", "name", inner, "netns", self.space)
        sh("ip", "link", "set", device, "master", self.lab.bridge, "up")
        self.inside("ip", "link", "set", inner, "up")
        for address in addresses:
            extra = ["nodad"] if ":" in address else []
            self.inside("ip", "addr", "add", address, "dev", inner, *extra)
            self.addresses.append(address.split("/")[0])

    def firewall(self, *rules):
        """Rules of nft for what leaves this host."""
        for rule in ("add table inet fw", "add chain inet fw out { type filter hook output priority 0 ; }",
                     *(f"add rule inet fw out {rule}" for rule in rules)):
            self.inside("nft", *rule.split())

    def no_firewall(self):
        self.inside("nft", "delete", "table", "inet", "fw")

    def knows(self, table):
        """What /etc/hosts says on this host."""
        folder = pathlib.Path("/etc/netns") / self.space
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n" + table)

    def run(self, *words, **environment):
        command = ["ip", "netns", "exec", self.space, "unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc",
                   "sh", "-c", f"hostname {self.name}; exec \"$@\"", "sh", *map(str, words)]
        process = Process(command, self.lab.environment | environment)
        self.processes.append(process)
        return process

    def pull_plug(self, device=None):
        sh("ip", "link", "set", device or self.device, "down")

    def break_card(self):
        """The card itself, not the cable: this host sees at once that it is down."""
        self.inside("ip", "link", "set", "e0", "down")

    def replug(self):
        sh("ip", "link", "set", self.device, "up")

    def cut_power(self):
        """Nothing leaves this host any more, not even the news of its end."""
        self.pull_plug()
        for process in self.processes:
            process.kill()


class Lab:
    numbers = itertools.count()

    def __init__(self, names=(), family=4):
        self.prefix = f"d{os.getpid() % 10000}{next(Lab.numbers)}"
        self.bridge = f"{self.prefix}b"
        self.folder = tempfile.mkdtemp(prefix="ddprun-netns-")
        kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "HOME") if name in os.environ}
        self.environment = kept | {"TMPDIR": self.folder, "PYTHONDONTWRITEBYTECODE": "1"}
        self.hosts = {}
        sh("ip", "link", "add", self.bridge, "type", "bridge")
        sh("ip", "link", "set", self.bridge, "up")
        for number, name in enumerate(names, 1):
            host = self.add(name)
            host.plug(f"10.213.0.{number}/24" if family == 4 else f"fd13::{number}/64")
        table = "".join(f"{host.addresses[0]} {name}\n" for name, host in self.hosts.items())
        for host in self.hosts.values():
            host.knows(table)

    def add(self, name):
        self.hosts[name] = Host(self, name)
        return self.hosts[name]

    def __getitem__(self, name):
        return self.hosts[name]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for host in self.hosts.values():
            for process in host.processes:
                process.kill()
            sh("ip", "netns", "del", host.space, check=False)
            shutil.rmtree(pathlib.Path("/etc/netns") / host.space, ignore_errors=True)
        sh("ip", "link", "del", self.bridge, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


def require_namespaces():
    if os.geteuid() != 0:
        skip("network namespaces need root")
    if shutil.which("ip") is None:
        skip("network namespaces need the command ip (Debian: iproute2)")
    probe = f"ddprun-probe-{os.getpid()}"
    if sh("ip", "netns", "add", probe, check=False).returncode != 0:
        skip("this machine does not let root make network namespaces")
    entered = sh("ip", "netns", "exec", probe, "true", check=False)
    sh("ip", "netns", "del", probe)
    if entered.returncode != 0:  # a chroot, say: `ip netns exec` mounts /sys anew
        skip(f"this machine does not let root enter network namespaces: {entered.stderr.strip()}")
