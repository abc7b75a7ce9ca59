#!/usr/bin/env python3
"""Writes the man pages: ddprun(1) from --help, ddprun-job(5) from configs/train.schema.json, and, where ddprun-worker is
beside ddprun, ddprun-worker(1) from the help of its commands.

    scripts/make_man.py build/release/bin/ddprun FOLDER
"""

import json
import pathlib
import re
import subprocess
import sys

import make_config_docs as docs

TEXT_COLUMN = 31


def roff(text):
    """`code` becomes bold; what roff takes for commands or hyphens is told apart."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"`([^`]*)`", r"\\fB\1\\fR", text)
    text = re.sub(r"[^\x00-\x7f]", lambda found: f"\\[u{ord(found[0]):04X}]", text)
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def header(name, section, version, summary):
    return [f'.TH {name.upper()} {section} "" "ddprun {version}"', ".SH NAME", f"{roff(name)} \\- {roff(summary)}"]


def item(head, text):
    return [".TP", f"\\fB{roff(head)}\\fR", roff(text) or "\\&"]


def said(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def entries(lines):
    """(what is written, what it means) of lines such as "  ddprun ps [--json]      list your jobs"."""
    found = []
    for line in lines:
        if line[:TEXT_COLUMN].strip() == "":
            found[-1][1] = f"{found[-1][1]} {line.strip()}".strip()
        elif len(line) > TEXT_COLUMN and line[TEXT_COLUMN - 2:TEXT_COLUMN] == "  ":
            found.append([line[:TEXT_COLUMN].strip(), line[TEXT_COLUMN:].strip()])
        else:
            found.append([line.strip(), ""])
    return found


def chapters(text):
    """Paragraphs of --help: (title, lines) of a list, ("", [text]) of prose."""
    for block in text.strip("\n").split("\n\n"):
        lines = block.splitlines()
        if lines[0].startswith("  "):
            yield "Examples", lines
        elif len(lines) > 1 and lines[1].startswith("  "):
            yield lines[0], lines[1:]
        else:
            yield "", [" ".join(lines)]


def launcher_page(program, text, version):
    (_, (purpose,)), (_, usage), *rest = chapters(text)
    page = header("ddprun", 1, version, purpose[0].lower() + purpose[1:].rstrip("."))
    page += [".SH SYNOPSIS"]
    for words, _ in entries(usage):
        page += [roff(words).replace("ddprun", "\\fBddprun\\fR", 1), ".br"]
    page += [".SH COMMANDS"]
    for words, meaning in entries(usage)[1:]:
        page += item(words, meaning)
    for name in dict.fromkeys(words.split()[1] for words, _ in entries(usage)[1:]):
        page += [f".SS ddprun {name}", ".nf", roff(said(program, name, "--help").rstrip()), ".fi"]
    for title, lines in rest:
        if title == "":
            exit_codes = lines[0].startswith("Exit codes: ")
            page += [".SH EXIT STATUS" if exit_codes else ".SH DESCRIPTION", roff(lines[0].removeprefix("Exit codes: "))]
        elif title == "Examples":
            page += [".SH EXAMPLES"] + [f".PP\n\\fB{roff(line.strip())}\\fR" for line in lines]
        else:
            page += [f".SH {roff(title.split(':')[0]).upper()}"]
            for words, meaning in entries(lines):
                page += item(words, meaning)
    return page + [".SH SEE ALSO", ".BR ddprun\\-worker (1), ddprun\\-job (5)"]


def keys(schema, pointer=""):
    for name, inner in schema["properties"].items():
        if inner["type"] == "object" and inner["properties"]:
            yield f"{pointer}/{name}", inner["description"] + docs.condition_words(inner)
            yield from keys(inner, f"{pointer}/{name}")
            continue
        required = name in schema.get("required", [])
        yield (f"{pointer}/{name}", f"{inner['description']}{docs.condition_words(inner)} Type: {docs.type_words(inner)}. Default: "
                                    f"{docs.default_words(inner, required)}.")


def job_page(version):
    schema = json.loads((docs.CONFIGS / "train.schema.json").read_text())
    page = header("ddprun-job", 5, version, "a job file for ddprun")
    page += [".SH DESCRIPTION", roff(schema["description"]), ".SH KEYS"]
    for pointer, meaning in keys(schema):
        page += item(pointer, meaning)
    return page + [".SH SEE ALSO", ".BR ddprun (1), ddprun\\-worker (1)"]


def worker_page(program, text, version):
    page = header("ddprun-worker", 1, version, "what can be done with a job file")
    page += [".SH DESCRIPTION", roff("The program that `ddprun` starts for job files, and hands these commands on to.")]
    for title, lines in chapters(text):
        if not title.startswith("Job files"):
            continue
        for words, _ in entries(lines):
            name = words.split()[1]
            page += [f".SH {name.upper()}", ".nf", roff(said(program, name, "--help").rstrip()), ".fi"]
    return page + [".SH SEE ALSO", ".BR ddprun (1), ddprun\\-job (5)"]


def main(program, folder):
    program, folder = pathlib.Path(program), pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    version = said(program, "--version").split()[1]
    text = said(program, "--help")
    pages = {"ddprun.1": launcher_page(program, text, version), "ddprun-job.5": job_page(version)}
    if (program.parent / "ddprun-worker").exists():
        pages["ddprun-worker.1"] = worker_page(program, text, version)
    for name, lines in pages.items():
        (folder / name).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
