#!/usr/bin/env python3
"""Data that a job downloads, from a web server on loopback that behaves in all ways that one can."""

import gzip
import hashlib
import io
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tarfile
import unittest

from jobs import BOUND_S, JobTest

import file_server
from file_server import FileServer
from skips import skip

NAMES = [f"{stem}-{kind}.gz" for stem in ("train", "t10k") for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")]
IMAGES = NAMES[0]
CIFAR = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]


def md5(content):
    return hashlib.md5(content).hexdigest()


def write_digits(folder):
    generator = random.Random(1)
    for stem, count in (("train", 64), ("t10k", 32)):
        images = b"\0\0\x08\x03" + b"".join(n.to_bytes(4, "big") for n in (count, 28, 28)) + generator.randbytes(count * 784)
        labels = b"\0\0\x08\x01" + count.to_bytes(4, "big") + bytes(i % 10 for i in range(count))
        for kind, content in (("images-idx3", images), ("labels-idx1", labels)):
            (folder / f"{stem}-{kind}-ubyte.gz").write_bytes(gzip.compress(content, mtime=0))


def write_sums(folder):
    (folder / "MD5SUMS").write_text("".join(f"{md5(path.read_bytes())}  {path.name}\n" for path in sorted(folder.glob("*.gz"))))


def write_cifar_archive(folder):
    generator = random.Random(1)
    with tarfile.open(folder / "cifar-10-binary.tar.gz", "w:gz") as archive:
        members = {name: b"".join(bytes([i % 10]) + generator.randbytes(3072) for i in range(16)) for name in CIFAR}
        members["batches.meta.txt"] = "".join(f"class {i}\n" for i in range(10)).encode()
        for name, content in members.items():
            header = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))


class DownloadTest(JobTest):
    def setUp(self):
        super().setUp()
        self.served, self.data = self.folder / "served", self.folder / "data"
        self.served.mkdir()
        write_digits(self.served)
        write_sums(self.served)
        self.server = FileServer(self.served)
        self.addCleanup(self.server.close)
        self.proxy = {}

    def environment(self):
        return {**super().environment(), "no_proxy": "127.0.0.1", "HOME": str(self.folder), **self.proxy}

    def digits(self, name="job.json", **data):
        data = {"type": "mnist", "path": "data", "download": True, "download_from": self.server.url, **data}
        return self.job_file({"data": data, "train": {"max_steps": 2}, "output_dir": f"out-{name}"}, name)

    def check_all_is_there(self, names=None):
        """And nothing else: no part, no lock."""
        self.assertEqual(sorted(path.name for path in self.data.iterdir()), sorted(names or NAMES))

    def check_done(self, done):
        self.assertIn("done: ", done.stdout)
        self.check_all_is_there()


class Downloads(DownloadTest):
    def test_two_ranks_download_once_and_never_again(self):
        done = self.run_job(self.digits())
        self.check_done(done)
        self.assertEqual(sorted(self.server.requests), sorted((name, None) for name in [*NAMES, "MD5SUMS"]))
        self.assertIn(f"downloads {IMAGES} from {self.server.url}/", done.stderr)
        self.assertEqual(done.stderr.count(f"data: MNIST is in {self.data}"), 1, done.stderr)
        self.server.requests.clear()
        self.run_job(self.digits(), "/train/max_steps=3")
        self.assertEqual(self.server.requests, [])

    def test_only_what_is_missing_is_downloaded(self):
        self.data.mkdir()
        (self.data / IMAGES).write_bytes((self.served / IMAGES).read_bytes())
        plain = NAMES[1].removesuffix(".gz")
        (self.data / plain).write_bytes(gzip.decompress((self.served / NAMES[1]).read_bytes()))
        self.run_job(self.digits())
        self.check_all_is_there([IMAGES, plain, *NAMES[2:]])
        self.assertEqual(self.server.asked_for(IMAGES) + self.server.asked_for(NAMES[1]), [])

    def test_a_connection_that_is_cut_goes_on_where_it_was(self):
        self.server.faults[IMAGES] = [file_server.cut_in_the_middle, file_server.cut_in_the_middle]
        self.check_done(self.run_job(self.digits()))
        half = (self.served / IMAGES).stat().st_size // 2
        spans = self.server.asked_for(IMAGES)
        self.assertEqual(spans[:2], [None, f"bytes={half}-"])
        self.assertEqual(len(spans), 3)

    def test_bytes_of_an_earlier_day_that_do_not_fit_are_dropped(self):
        self.data.mkdir()
        (self.data / f"{IMAGES}.part").write_bytes(b"another file" * 10)
        done = self.run_job(self.digits())
        self.check_done(done)
        self.assertEqual(self.server.asked_for(IMAGES), ["bytes=120-", None])
        self.assertRegex(done.stderr, f"{IMAGES}: its .* have the MD5 sum [0-9a-f]+, expected [0-9a-f]+; begins anew")

    def test_a_server_without_ranges_is_asked_for_all_of_it(self):
        self.data.mkdir()
        (self.data / f"{IMAGES}.part").write_bytes((self.served / IMAGES).read_bytes()[:100])
        self.server.faults[IMAGES] = [file_server.ignore_ranges]
        self.check_done(self.run_job(self.digits()))
        self.assertEqual(self.server.asked_for(IMAGES), ["bytes=100-", None])

    def test_a_part_that_is_whole_already_is_taken(self):
        self.data.mkdir()
        (self.data / f"{IMAGES}.part").write_bytes((self.served / IMAGES).read_bytes())
        self.check_done(self.run_job(self.digits()))

    def test_a_part_that_is_longer_than_the_file_is_dropped(self):
        self.data.mkdir()
        (self.data / f"{IMAGES}.part").write_bytes((self.served / IMAGES).read_bytes() + b"more")
        self.server.faults[IMAGES] = [file_server.has_no_rest]
        self.check_done(self.run_job(self.digits()))
        self.assertEqual(self.server.asked_for(IMAGES)[1:], [None])

    def test_a_server_that_announces_more_than_it_has(self):
        self.server.faults[IMAGES] = [file_server.announce_too_much]
        self.check_done(self.run_job(self.digits()))

    def test_a_redirect_is_followed(self):
        (self.served / "elsewhere.bin").write_bytes((self.served / IMAGES).read_bytes())
        self.server.faults[IMAGES] = [file_server.redirect("/elsewhere.bin")]
        self.check_done(self.run_job(self.digits()))
        self.assertEqual(self.server.asked_for("elsewhere.bin"), [None])

    def test_a_name_and_a_password_come_from_netrc(self):
        self.server.credentials = "me:secret"
        (self.folder / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
        self.check_done(self.run_job(self.digits()))

    def test_the_usual_places_are_not_told_a_password(self):
        (self.folder / ".netrc").write_text("default login me password secret\n")
        job = self.job_file({"data": {"type": "fashion_mnist", "path": "data", "download": True}, "train": {"max_steps": 2}})
        # Its only place is http://, which our server stands for as a proxy; its files are others.
        self.proxy = {"http_proxy": self.server.url}
        self.run_job(job, expect=78)
        self.assertTrue(self.server.signatures)
        self.assertEqual(set(self.server.signatures), {None})

    def test_an_archive_is_unpacked_and_goes(self):
        write_cifar_archive(self.served)
        write_sums(self.served)
        self.server.faults["cifar-10-binary.tar.gz"] = [file_server.cut_in_the_middle]
        done = self.run_job(self.digits(type="cifar10"))
        self.assertIn("done: ", done.stdout)
        self.check_all_is_there([*CIFAR, "batches.meta.txt"])

    def test_an_archive_that_somebody_has_put_there_is_unpacked_and_stays(self):
        write_cifar_archive(self.served)
        write_sums(self.served)
        self.data.mkdir()
        archive = self.data / "cifar-10-binary.tar.gz"
        archive.write_bytes((self.served / archive.name).read_bytes())
        self.run_job(self.digits(type="cifar10"))
        self.check_all_is_there([*CIFAR, "batches.meta.txt", archive.name])
        self.assertEqual(self.server.asked_for(archive.name), [])

    def test_data_to_be_judged_by_is_downloaded_as_well(self):
        as_digits = {"type": "normalize", "mean": [0.1307], "std": [0.3081]}
        more = {"type": "fashion_mnist", "path": "more", "download": True, "download_from": self.server.url,
                "test_transforms": [as_digits]}
        job = self.job_file({"data": {"type": "mnist", "path": "served"}, "train": {"max_steps": 2}, "evaluate": {"more": more}})
        self.run_job(job)
        self.assertEqual(sorted(path.name for path in (self.folder / "more").iterdir()), sorted(NAMES))

    def test_a_command_downloads_what_it_reads(self):
        self.run_job(self.digits())
        for path in self.data.iterdir():
            path.unlink()
        done = subprocess.run([str(self.binaries / "ddprun"), "eval", "job.json"], cwd=self.folder, env=self.environment(), text=True,
                              capture_output=True, timeout=BOUND_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_all_is_there()
        self.assertNotIn("downloads", done.stdout)


class Refusals(DownloadTest):
    def refused(self, *words, expect=78, settings=(), **data):
        done = self.run_job(self.digits(**data), *settings, expect=expect)
        for word in words:
            self.assertIn(word, done.stderr)
        return done

    ADVICE = "yourself, or set download_from to a place that has"

    def test_a_wrong_sum_is_told_with_both(self):
        content = (self.served / IMAGES).read_bytes()
        (self.served / IMAGES).write_bytes(content[:-1] + b"x")
        self.refused(f"{self.server.url}/{IMAGES}: its ", f"have the MD5 sum {md5(content[:-1] + b'x')}, expected {md5(content)}",
                     f"put {', '.join(NAMES)} into {self.data} {self.ADVICE} them")
        self.assertEqual(list(self.data.glob("*.gz*")), [])

    def test_an_answer_that_is_shorter_than_the_file_has_a_wrong_sum(self):
        self.server.faults[IMAGES] = [file_server.announce_too_little]
        self.refused("have the MD5 sum")

    def test_an_answer_without_an_end_is_ended(self):
        """Without sums of its own a place has the originals, whose sizes are known."""
        self.data.mkdir()
        for name in NAMES[:3]:
            (self.data / name).write_bytes((self.served / name).read_bytes())
        (self.served / "MD5SUMS").unlink()
        self.server.faults[NAMES[3]] = [file_server.never_end]
        self.refused("it has more than the 4542 bytes of that file", f"put {NAMES[3]} into {self.data} {self.ADVICE} it")

    def test_a_file_that_is_not_there(self):
        (self.served / IMAGES).unlink()
        self.refused(f"/data: cannot download MNIST: {self.server.url}/{IMAGES}: the server answered 404; put {', '.join(NAMES)} into "
                     f"{self.data} {self.ADVICE} them")
        self.assertFalse(self.data.exists())

    def test_a_server_that_is_gone(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        self.refused(f"cannot download MNIST: http://127.0.0.1:{port}/MD5SUMS: failed to connect", f"put {', '.join(NAMES)} into",
                     download_from=f"http://127.0.0.1:{port}")

    def test_a_server_that_is_silent_is_given_up_once_for_all_ranks(self):
        self.server.faults[IMAGES] = [file_server.say_nothing] * 4
        self.refused(f"{IMAGES}: nothing came for 1 s", download_timeout_s=1)
        self.assertEqual(len(self.server.asked_for(IMAGES)), 1)

    def test_a_redirect_that_leads_nowhere(self):
        self.server.faults[IMAGES] = [file_server.redirect(f"/{IMAGES}")] * 20
        self.refused("redirect")

    def test_a_redirect_to_another_protocol(self):
        self.server.faults[IMAGES] = [file_server.redirect(f"ftp://127.0.0.1:1/{IMAGES}")] * 20
        self.refused('protocol "ftp" not supported')

    def test_what_is_no_place_on_the_web(self):
        self.refused("file:///MD5SUMS", download_from="file:///")

    def test_a_folder_that_cannot_be_made(self):
        (self.folder / "data").write_text("in the way")
        self.refused("cannot make the data folder", expect=71)

    def test_an_archive_of_other_bytes_stays_and_is_told(self):
        self.data.mkdir()
        (self.data / "cifar-10-binary.tar.gz").write_bytes(b"something")
        self.refused("has the MD5 sum", "remove it, so that it is downloaded", type="cifar10")
        self.assertTrue((self.data / "cifar-10-binary.tar.gz").exists())

    def test_nothing_is_asked_of_the_network_unless_that_is_wanted(self):
        self.refused("or /data/download to true", settings=("/data/download=false", "/data/download_from=null"))
        self.assertEqual(self.server.requests, [])
        self.refused("/data/download_from: no use without \"download\"; remove it", settings=("/data/download=false",))

    def test_a_full_disk_is_told_and_the_same_command_goes_on(self):
        probe = subprocess.run(["unshare", "-m", "sh", "-c", "mount -t tmpfs none /mnt"], capture_output=True, check=False)
        if probe.returncode != 0:
            skip("needs root for a small tmpfs")
        inside = ('mkdir data && mount -t tmpfs -o size=32k none data && { "$@"; code=$?; ls data; '
                  'mount -o remount,size=1m data; "$@" || exit 1; exit $code; }')
        done = subprocess.run(["unshare", "-m", "sh", "-c", inside, "-", *self.command(self.digits())], cwd=self.folder,
                              env=self.environment(), text=True, capture_output=True, timeout=BOUND_S, check=False)
        self.assertEqual(done.returncode, 71, done.stderr)
        self.assertRegex(done.stderr, f"cannot write \\S+/data/{IMAGES}.part after .*: No space left on device; make room")
        self.assertIn(f"{IMAGES}.part\n", done.stdout)
        self.assertIn("done: ", done.stdout)
        self.assertRegex(self.server.asked_for(IMAGES)[1], r"bytes=\d+-")


class TwoAtOnce(DownloadTest):
    def start_apart(self, name):
        read, write = os.pipe()
        process = subprocess.Popen(self.command(self.digits(name), ranks=1), cwd=self.folder, env=self.environment(), text=True,
                                   stdout=subprocess.PIPE, stderr=write)
        os.close(write)
        return process, os.fdopen(read, encoding="utf-8")

    def wait_for(self, stream, words):
        for line in stream:
            if words in line:
                return line
        self.fail(words)

    def test_one_job_downloads_and_the_other_waits(self):
        self.server.faults[IMAGES] = [lambda handler, content: (self.server.is_free.wait(), handler.send_file(content))]
        first, said = self.start_apart("a.json")
        self.wait_for(said, f"downloads {IMAGES}")
        second, heard = self.start_apart("b.json")
        line = self.wait_for(heard, "waits for process")
        self.assertRegex(line, rf"data: waits for process \d+ on \S+, which downloads MNIST into {self.data}")
        self.server.is_free.set()
        for process, stream in ((first, said), (second, heard)):
            stream.read()
            stream.close()
            self.finish_quietly(process)
        self.check_all_is_there()
        self.assertEqual([len(self.server.asked_for(name)) for name in NAMES], [1] * 4)

    def finish_quietly(self, process):
        output, _ = process.communicate(timeout=BOUND_S)
        self.assertEqual(process.returncode, 0, output)

    def test_who_waits_takes_over_from_one_that_is_killed(self):
        self.server.faults[IMAGES] = [file_server.cut_in_the_middle, file_server.say_nothing]
        first, said = self.start_apart("a.json")
        self.wait_for(said, "goes on at")
        second, heard = self.start_apart("b.json")
        self.wait_for(heard, "waits for process")
        first.kill()
        first.wait(timeout=BOUND_S)
        self.wait_for(heard, f"downloads {IMAGES} from {self.server.url}/, from ")
        heard.read()
        self.finish_quietly(second)
        for stream in (said, heard, first.stdout):
            stream.close()
        self.check_all_is_there()

    def test_ctrl_c_leaves_what_the_same_command_goes_on_from(self):
        self.server.faults[IMAGES] = [file_server.cut_in_the_middle, file_server.say_nothing]
        process, said = self.start_apart("a.json")
        self.wait_for(said, "goes on at")
        process.send_signal(signal.SIGINT)
        said.read()
        said.close()
        process.communicate(timeout=BOUND_S)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(self.processes(), [])
        self.server.faults.clear()  # the second request may not have been made
        part = (self.data / f"{IMAGES}.part").stat().st_size
        self.run_job(self.digits("a.json"))
        self.check_all_is_there()
        self.assertEqual(self.server.asked_for(IMAGES)[-1], f"bytes={part}-")


class Looks(DownloadTest):
    def ddprun(self, *words):
        return subprocess.run([str(self.binaries / "ddprun"), *words], cwd=self.folder, env=self.environment(), text=True,
                              capture_output=True, timeout=BOUND_S, check=False)

    def test_validate_says_what_a_start_downloads_and_downloads_nothing(self):
        self.digits()
        done = self.ddprun("validate", "job.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        said = " ".join(done.stdout.split())
        self.assertIn(f"a start downloads MNIST: 4 files (11.6 MB) from {self.server.url} into {self.data}", said)
        self.assertIn("mnist: not there yet, image [1, 28, 28], label, 10 classes", said)
        self.assertIn("model mlp: ", said)
        self.assertEqual((self.server.requests, self.data.exists()), ([], False))
        self.assertEqual(list(self.folder.glob("ddprun-*")), [])

    def test_a_smoke_test_downloads_nothing(self):
        self.digits()
        done = self.ddprun("smoke", "job.json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("data is not there: ", done.stdout)
        self.assertEqual((self.server.requests, self.data.exists()), ([], False))


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        JobTest.binaries = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
