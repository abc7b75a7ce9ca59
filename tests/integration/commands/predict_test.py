#!/usr/bin/env python3
"""`ddprun predict` of images, rows and texts, held against Python's own computation, and `ddprun init`."""

import json
import re
import struct
import unittest
import zlib

import numpy
import torch

import harness
from harness import CommandTest


def write_png(path, pixels):
    """height × width (grey) or height × width × 3 bytes."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2 * (pixels.ndim - 2), 0, 0, 0))
                     + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Predictions(CommandTest):
    def predict(self, *words, expect=0):
        done = self.ddprun("predict", "job.json", "--json", *words, expect=expect)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def script(self):
        self.ddprun("export", "job.json", "--force", "-o", "a.torchscript")
        return torch.jit.load(self.folder / "a.torchscript")

    def test_an_image_of_mnists_kind(self):
        self.write_job(data={"type": "mnist", "path": str(harness.ROOT / "configs/data/mnist-subset"), "train_samples": 640,
                             "test_samples": 10})
        self.train()
        grey = numpy.random.default_rng(1).integers(0, 256, (28, 28), numpy.uint8)
        write_png(self.folder / "a.png", grey)
        write_png(self.folder / "color.png", numpy.stack([grey] * 3, 2))
        found = self.predict("a.png", "color.png", "--top", "10")
        wanted = self.script()(((torch.from_numpy(grey) / 255 - 0.1307) / 0.3081).view(1, 1, 28, 28)).detach().double().softmax(1)[0]
        for answer, name in zip(found, ("a.png", "color.png"), strict=True):
            self.assertEqual(answer["input"], name)
            order = [entry["class"] for entry in answer["classes"]]
            self.assertEqual(order, wanted.argsort(descending=True).tolist())
            numpy.testing.assert_allclose([entry["probability"] for entry in answer["classes"]], wanted[order], rtol=1e-5)
        line = self.ddprun("predict", "job.json", "a.png").stdout
        self.assertEqual(line, f"a.png  {order[0]}  {100 * wanted.max():.2f} %\n")

    def test_images_of_a_folder_go_through_the_transforms_and_have_names(self):
        for split in ("train", "test"):
            for name, value in (("cat", 10), ("dog", 200)):
                (self.folder / "images" / split / name).mkdir(parents=True)
                for i in range(8):
                    write_png(self.folder / "images" / split / name / f"{i}.png", numpy.full((20, 24, 3), value + i, numpy.uint8))
        small = [{"type": "resize", "size": 16}, {"type": "center_crop", "size": 16}]
        self.write_job(data={"type": "image_folder", "path": "images", "transforms": small, "test_transforms": small},
                       train={"batch_size": 4, "epochs": 20}, optimizer={"type": "adam", "learning_rate": 0.01})
        self.train()
        lines = self.ddprun("predict", "job.json", "images/test/cat/1.png", "images/test/dog/2.png").stdout.splitlines()
        self.assertRegex(lines[0], r"^images/test/cat/1.png  cat  \d+\.\d\d %$")
        self.assertRegex(lines[1], r"^images/test/dog/2.png  dog  \d+\.\d\d %$")

    def test_rows_of_csv_are_taken_by_name_and_standardised_as_in_training(self):
        generator = numpy.random.default_rng(2)
        table = generator.normal(5, 3, (40, 3))
        for name in ("train.csv", "test.csv"):
            rows = "\n".join(f"{a},{b},{c},{int(a > 5)}" for a, b, c in table)
            (self.folder / name).write_text("a,b,c,kind\n" + rows + "\n")
        self.write_job(data={"type": "csv", "path": ".", "classes": 2})
        self.train()
        (self.folder / "new.csv").write_text("c,a,b\n1,2,3\n\n4,5,6\n")
        (self.folder / "full.csv").write_text("a,b,kind,c\n2,3,0,1\n5,6,1,4\n")
        found = [[answer["classes"] for answer in self.predict(name, "--top", "2")] for name in ("new.csv", "full.csv")]
        self.assertEqual(found[0], found[1])
        features = (torch.tensor([[2.0, 3, 1], [5, 6, 4]], dtype=torch.double) - torch.from_numpy(table.mean(0))) / torch.from_numpy(table.std(0))
        wanted = self.script()(features.float()).detach().double().softmax(1)
        for row in range(2):
            for entry in found[0][row]:
                self.assertAlmostEqual(entry["probability"], wanted[row][entry["class"]].item(), places=5)
        self.assertEqual([answer["input"] for answer in self.predict("new.csv")], ["new.csv:1", "new.csv:2"])
        (self.folder / "short.csv").write_text("a,c\n1,2\n")
        self.assertIn("short.csv has no column b, which the training data has; there are a, c",
                      self.ddprun("predict", "job.json", "short.csv", expect=78).stderr)
        (self.folder / "short.csv").write_text("a,b,c\n1,2,3\n1,1e300,3\n")
        self.assertIn("short.csv: row 2 holds a number that is not finite in float32",
                      self.ddprun("predict", "job.json", "short.csv", expect=78).stderr)
        self.assertIn("--checkpoint names nothing: is a shell variable unset?",
                      self.ddprun("predict", "job.json", "new.csv", "--checkpoint", "", expect=64).stderr)
        with (self.folder / "train.csv").open("a") as more:
            more.write("90,90,90,1\n")
        for command in (("eval", "job.json"), ("predict", "job.json", "new.csv"), ("job.json",)):
            with self.subTest(command):
                self.assertRegex(self.ddprun(*command, "--set", "/train/epochs=50", expect=78).stderr,
                                 r"/data: its numbers are standardised by column \(.*, and those of the data that the model learned from "
                                 r"standardised by column \(.*; give it the files and the keys of then")

    def test_arrays_give_numbers_where_there_are_no_classes(self):
        for split in ("train", "test"):
            features = numpy.random.default_rng(3).normal(size=(20, 4)).astype(numpy.float32)
            numpy.save(self.folder / f"{split}_x.npy", features)
            numpy.save(self.folder / f"{split}_y.npy", features.sum(1))
        self.write_job(data={"type": "npy", "path": "."})
        self.train()
        numpy.save(self.folder / "new.npy", features[:3])
        found = self.predict("new.npy")
        wanted = self.script()(torch.from_numpy(features[:3])).flatten().tolist()
        numpy.testing.assert_allclose([answer["values"][0] for answer in found], wanted, rtol=1e-6)
        numpy.save(self.folder / "wide.npy", numpy.zeros((1, 5), numpy.float32))
        self.assertIn("wide.npy has samples of [5], and the job's are [4]",
                      self.ddprun("predict", "job.json", "wide.npy", expect=78).stderr)

    def test_a_text_is_continued(self):
        (self.folder / "text.txt").write_text("abcdefgh" * 200 + "ä")
        self.write_job(model={"type": "gpt", "layers": 1, "heads": 1, "width": 16},
                       data={"type": "text", "path": "text.txt", "block": 16}, train={"batch_size": 4, "epochs": 12},
                       optimizer={"type": "adam", "learning_rate": 0.01})
        self.train()
        self.assertEqual(self.ddprun("predict", "job.json", "abc", "--temperature", "0", "--tokens", "21").stdout,
                         "abc" + ("defghabc" * 3)[:21] + "\n")
        once, again, other = (self.predict("abä", "--temperature", "3", "--seed", seed)[0] for seed in "112")
        self.assertEqual((once, len(once["text"])), (again, 200))
        self.assertNotEqual(once, other)
        for prompt, said in (("xyz", 'the text of the job has no "x", which is in the input'), ("", "the input is empty")):
            self.assertIn(said, self.ddprun("predict", "job.json", prompt, expect=78).stderr)

    def test_a_job_says_at_its_end_what_its_model_makes_up(self):
        (self.folder / "text.txt").write_text("abcdefg\n" * 200 + "\x1b")
        self.write_job(model={"type": "gpt", "layers": 1, "heads": 1, "width": 16},
                       data={"type": "text", "path": "text.txt", "block": 16}, log={"sample_tokens": 24},
                       train={"batch_size": 4, "epochs": 20, "ema_decay": 0.5}, optimizer={"type": "adam", "learning_rate": 0.01})
        said = self.ddprun("--standalone", "--nproc-per-node", "2", "job.json").stdout
        self.assertIn("\nsample: abcdefg\nabcdefg\nabcdefg\n", said)
        self.assertNotIn("sample: ", self.train().stdout)  # nothing was left to do

    def test_only_a_model_of_tokens_makes_something_up(self):
        self.write_job(log={"sample_tokens": 5})
        for words in (("--standalone", "--nproc-per-node", "2", "job.json"), ("validate", "job.json")):
            self.assertIn("/log/sample_tokens: a text is sampled from a model of tokens, and the data has images; remove it",
                          self.ddprun(*words, expect=78).stderr)

    def test_an_input_that_cannot_be_read_does_not_hide_the_others(self):
        self.write_job()
        self.train()
        write_png(self.folder / "a.png", numpy.zeros((28, 28), numpy.uint8))
        write_png(self.folder / "large.png", numpy.zeros((30, 20), numpy.uint8))
        (self.folder / "text.png").write_text("no image")
        done = self.ddprun("predict", "job.json", "nowhere.png", "text.png", ".", "large.png", "a.png", expect=78)
        self.assertRegex(done.stdout, r"^a.png  \d  \d+\.\d\d %\n$")
        self.assertEqual(len(done.stderr.splitlines()), 4, done.stderr)
        self.assertIn("large.png has 30 × 20 pixels, and the job's images have 28 × 28; resize it", done.stderr)

    def test_wrong_numbers_are_refused(self):
        self.write_job()
        for flags, said in ((("--top", "0"), '--top: expected a number from 1 to 1000000, got "0"'),
                            (("--temperature", "nan"), '--temperature: expected a number from 0 to 100, got "nan"')):
            self.assertEqual(self.ddprun("predict", "job.json", "a", *flags, expect=64).stderr, f"ddprun predict: {said}\n")


class Beginnings(CommandTest):
    def test_what_init_writes_is_valid_and_trains(self):
        self.assertEqual(self.ddprun("init", "mine").stdout,
                         "mine.json is written; train it: ddprun --nproc-per-node 2 mine.json\n")
        text = (self.folder / "mine.json").read_text()
        self.assertIn("// Passes over the training data.", text)
        self.assertLessEqual(max(map(len, text.splitlines())), 110)
        commands = [line for line in text.splitlines() if line.startswith("//   ")]
        self.assertEqual({re.match(r"//   \S+( \S+)* {3,}", line).end() for line in commands},
                         {len("//   ddprun --nproc-per-node 2 mine.json   ")})
        self.assertIn("mine.json is valid", self.ddprun("validate", "mine.json").stdout)
        self.train("/train/max_steps=2", "/schedule/warmup_steps=1", job="mine.json")
        self.assertTrue((self.folder / "runs/mine/checkpoints").is_dir())
        plain = "\n".join(line for line in text.splitlines() if not line.strip().startswith("//"))
        self.assertEqual(json.loads(plain)["name"], "mine")

    def test_a_file_is_never_replaced(self):
        (self.folder / "job.json").write_text("mine")
        self.assertEqual(self.ddprun("init", expect=64).stderr, "ddprun init: job.json is there already; name another one\n")
        self.assertEqual((self.folder / "job.json").read_text(), "mine")
        self.assertIn("cannot write nowhere/a.json: No such file or directory",
                      self.ddprun("init", "nowhere/a", expect=71).stderr)
        for name in (".json", "..", "/", "a\n", "a\x1b"):
            self.assertIn("is no name for a job", self.ddprun("init", name, expect=64).stderr)


if __name__ == "__main__":
    harness.main()
