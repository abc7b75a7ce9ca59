#!/usr/bin/env python3
"""Holds the written pages against the tree: what they name is there, and tables that repeat code say what it says.

* every path, script and job file named in backquotes or in a command exists
* every CMake preset, and every test label given to ctest -L, exists
* every flag that a command gives to ddprun is in its help (tests/unit/launcher_cli/help.txt)
* the README's table of exit codes is that of rendezvous/base/exit_codes.h
* every sh block of README.md, configs/README.md and docs/ says in a comment above it which test runs it, or why none does
* every link to a page leads to one, and to a heading of it
* .github/workflows call scripts and presets that are there
* no table in a comment is broken: what a row says goes on below its beginning
* the head of a part of a file is `// ---- words`, in one line that no formatter tears, with no dashes behind
* no line of a comment is longer than 120 columns, as an edit leaves it that wraps nothing anew
"""

import json
import re
import sys

from listed_files import ROOT, listed_files

PAGES = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "configs/README.md",
         *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))]
WORKFLOWS = sorted(f".github/workflows/{file.name}" for file in (ROOT / ".github/workflows").glob("*.yml"))
# Paths below these folders are promises about the tree; anything else in backquotes is just a word.
FOLDERS = ("configs/", "docs/", "launcher/", "rendezvous/", "scripts/", "tests/", "worker/", ".ci/")

problems = []


def page_texts():
    return {page: (ROOT / page).read_text() for page in PAGES}


def check_paths(page, text):
    for path in set(re.findall(r"(?<![\w/.-])((?:\./)?(?:%s)[\w./-]*)" % "|".join(map(re.escape, FOLDERS)), text)):
        path = path.removeprefix("./").rstrip(".")
        if not (ROOT / path).exists():
            problems.append(f"{page} names {path}, which is not there")


def check_presets(page, text):
    presets = json.loads((ROOT / "CMakePresets.json").read_text())
    known = {preset["name"] for preset in presets["configurePresets"]}
    for name in set(re.findall(r"--preset[= ](\w+)", text)) | set(re.findall(r"--workflow --preset (\w+)", text)):
        if name not in known:
            problems.append(f"{page} names the preset {name}, which is not in CMakePresets.json")


def check_labels(page, text):
    files = [ROOT / name for name in listed_files("tests/*/CMakeLists.txt")]
    known = set(re.findall(r"LABELS? \"?(\w+)", "\n".join(file.read_text() for file in files)))
    for name in set(re.findall(r"-L '?\"?(\w+)", text)):
        if name not in known:
            problems.append(f"{page} names the test label {name}, which no test has")


def check_flags(page, text):
    known = set(re.findall(r"--([\w-]+)", (ROOT / "tests/unit/launcher_cli/help.txt").read_text()))
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
        for command in re.findall(r"^(?:\S*/)?ddprun (.*)$", block, re.MULTILINE):
            own = re.split(r"\s(?=\S*\.(?:json|py)\b|\./|\"\$\()", " " + command)[0]  # flags end at the program
            for name in re.findall(r"--([\w-]+)", own):
                if name not in known:
                    problems.append(f"{page} gives ddprun the flag --{name}, which its help does not know")


def names_page(test, page):
    """Whether the test, or what lies beside it and is shared, says that it goes by that page."""
    return any(page.removesuffix(".md") in file.read_text() for file in [ROOT / test, *(ROOT / test).parent.glob("*.py")])


def check_blocks(page, text):
    if page in ("ARCHITECTURE.md", "CONTRIBUTING.md"):
        return
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if line != "```sh":
            continue
        said = re.fullmatch(r"<!-- (?:run by (?P<tests>[^\s,;]+(?:, [^\s,;]+)*)(?:; .+)?|not run: .+) -->", lines[number - 2])
        if not said:
            problems.append(f"{page}:{number}: which test runs this block? say <!-- run by tests/… --> above it, or <!-- not run: why -->")
        for test in (said["tests"] or "").split(", ") if said else ():
            if test and not ((ROOT / test).is_file() and names_page(test, page)):
                problems.append(f"{page}:{number}: {test} is to run this block, and is not there or does not name {page}")


def anchors_of(text):
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def check_links(page, text):
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        name, _, anchor = target.partition("#")
        if "://" in name:
            continue
        file = (ROOT / page).parent / name if name else ROOT / page
        if not file.exists():
            problems.append(f"{page} links to {target}, which is not there")
        elif anchor and anchor not in anchors_of(file.read_text()):
            problems.append(f"{page} links to {target}, and {name or page} has no such heading")


def check_exit_codes(text):
    header = (ROOT / "rendezvous/base/exit_codes.h").read_text()
    in_code = set(map(int, re.findall(r"inline constexpr int k\w+ = (\d+);", header)))
    table = text.split("## Exit codes")[1].split("\n## ")[0]
    in_table = set(map(int, re.findall(r"^\| (\d+)", table, re.MULTILINE)))
    for code in sorted(in_code ^ in_table):
        where = "exit_codes.h" if code in in_code else "the README's table"
        problems.append(f"exit code {code} stands in {where} only")


# "Errors   kUsage: …" in a comment: a label, two blanks or more, and what it says.
ROW = re.compile(r"( {0,4}\S+(?: \S+){0,4}? {2,})\S")


def broken_rows(comment):
    """The lines of a comment, numbered, that belong to a row of a table and begin elsewhere than its text."""
    column = None
    for number, text in comment:
        row = ROW.match(text)
        indent = len(text) - len(text.lstrip())
        if not text.strip():
            column = None
        elif re.search(r"[.:] Errors? {2,}\S", text):
            yield number  # a row that begins within running text
        elif column is None and indent >= 3 and not row:
            pass  # a piece of code
        elif row:
            column = len(row.group(1))
        elif column is not None and indent < column:
            yield number
        elif column is None and re.search(r"\S {2,}\S", re.sub(r"`[^`]*`|\"[^\"]*\"", "x", text)):
            yield number  # the formatter has drawn a row into the line before


def comments_of(text):
    comment = []
    for number, line in enumerate(text.splitlines(), 1):
        found = re.match(r"\s*///?(?![/<])(.*)$", line)
        if found:
            comment.append((number, found.group(1)))
        elif comment:
            yield comment
            comment = []


def check_comments():
    for path in listed_files("launcher/*.h", "launcher/*.cc", "rendezvous/*.h", "rendezvous/*.cc", "worker/*.h", "worker/*.cc", "worker/*.cu",
                             "tests/*.h", "tests/*.cc"):
        text = (ROOT / path).read_text()
        for number, line in enumerate(text.splitlines(), 1):
            if re.match(r"\s*// ?-{3,}", line) and not re.match(r"\s*// ---- .*[^-\s]$", line):
                problems.append(f"{path}:{number}: the head of a part is `// ---- words` in one line, with no dashes behind")
            if len(line) > 120 and re.match(r"\s*//", line):
                problems.append(f"{path}:{number}: the comment's line is longer than 120 columns; wrap its paragraph")
        if path.startswith("tests/"):
            continue
        for comment in comments_of(text):
            for number in broken_rows(comment):
                problems.append(f"{path}:{number}: a table in the comment is broken; begin below the row's text")


def main():
    texts = page_texts()
    for page, text in texts.items():
        check_paths(page, text)
        check_presets(page, text)
        check_labels(page, text)
        check_flags(page, text)
        check_blocks(page, text)
        check_links(page, text)
    check_exit_codes(texts["README.md"])
    for workflow in WORKFLOWS:
        text = (ROOT / workflow).read_text()
        check_paths(workflow, text)
        check_presets(workflow, text)
    check_comments()
    if problems:
        sys.exit("\n".join(sorted(problems)))


if __name__ == "__main__":
    main()
