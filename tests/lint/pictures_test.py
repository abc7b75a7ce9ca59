"""What scripts/make_pictures.py draws of a terminal, and that the pictures of docs/ can be shown."""

import pathlib
import sys
import unittest
import xml.dom.minidom

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True

import make_pictures  # noqa: E402


def screen(chunks):
    """The last version of each line."""
    return [line[-1][1] if line else "" for line in make_pictures.versions(chunks)]


class Pictures(unittest.TestCase):
    def test_a_program_that_does_not_end_as_it_should_is_not_drawn(self):
        with self.assertRaisesRegex(SystemExit, "ended with 127, expected 0:\n.*not found"):
            make_pictures.record(["sh", "-c", "no-such-program"], 0)

    def test_a_line_that_is_drawn_over_shows_its_last_version(self):
        self.assertEqual(screen([(0, "50 %"), (1, "\r\x1b[K100 %"), (2, "\r\x1b[Kdone\r\nend\r\n")]), ["done", "end", ""])

    def test_what_is_not_cleared_stays(self):
        self.assertEqual(screen([(0, "abcdef\rxy")]), ["xycdef"])

    def test_a_version_that_nobody_could_read_is_left_out(self):
        (line,) = make_pictures.versions([(0, "one"), (0.1, "\r\x1b[Ktwo"), (0.9, "\r\x1b[Kthree")])
        self.assertEqual([text for _, text in line], ["one", "three"])

    def test_a_long_line_takes_several_rows(self):
        self.assertEqual(screen([(0, "x" * (make_pictures.COLUMNS + 1))]), ["x" * make_pictures.COLUMNS, "x"])

    def test_an_escape_it_does_not_know_is_refused(self):
        with self.assertRaisesRegex(ValueError, "does not know"):
            screen([(0, "\x1b[31mred")])

    def test_a_program_sees_a_terminal_and_its_text_is_escaped(self):
        chunks = make_pictures.record(["sh", "-c", "test -t 1 && echo '<a & b>'"], 0)
        drawn = make_pictures.draw("cmd", make_pictures.versions(chunks))
        self.assertIn("&lt;a &amp; b&gt;</text>", drawn)
        xml.dom.minidom.parseString(drawn)

    def test_the_pictures_of_the_pages_can_be_read(self):
        for name, (command, _) in make_pictures.PICTURES.items():
            picture = (ROOT / f"docs/{name}.svg").read_text()
            xml.dom.minidom.parseString(picture)
            self.assertIn(f"$ {command}</text>", picture)


if __name__ == "__main__":
    unittest.main()
