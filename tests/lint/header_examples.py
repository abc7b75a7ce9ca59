#!/usr/bin/env python3
"""header_examples.py INCLUDE OUT.cc: makes one file of C++ of all examples in the comments of the public headers.

An example is what Markdown takes for code: after an empty line of a comment, lines indented by four spaces more. It is
the body of a function, in which the names of example_names.h are known; `…` stands for what is left out. One that
includes something or has a main is a file of its own, and one that begins with a quotation mark is a part of a job file.
"""

import json
import pathlib
import re
import sys

COMMENT = re.compile(r"^\s*///(?: (.*))?$")


def examples(text):
    """(line number, lines) of each."""
    found, block, before = [], None, None
    for number, line in enumerate(text.splitlines() + [""], 1):
        match = COMMENT.match(line)
        comment = (match[1] or "").rstrip() if match else None
        is_code = comment is not None and comment.startswith("    ")
        if is_code and (block or before == ""):
            block = block or (number, [])
            block[1].append(comment[4:])
        elif block and comment == "":
            block[1].append("")  # an example may have empty lines
        elif block:
            found.append(block)
            block = None
        before = comment
    return [(number, "\n".join(lines).rstrip()) for number, lines in found]


def is_whole(code):
    return "#include" in code or re.search(r"^int main\(", code, re.MULTILINE)


def compiled(name, number, code):
    includes = "".join(f"{line}\n" for line in code.splitlines() if line.startswith("#include"))
    rest = "\n".join("" if line.startswith("#include") else line for line in code.splitlines()).replace("…", "")
    space = re.sub(r"\W", "_", f"{name}_{number}")
    if is_whole(code):
        rest = rest.replace("int main(", "int example_main(")
        return includes, f'namespace example_{space} {{\n#line {number} "{name}"\n{rest}\n}}\n'
    body = f'#line {number} "{name}"\n{rest}\n'
    return includes, f"inline int example_{space}() {{\n{body}return 0;\n}}\n"


def main():
    include, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    headers, code, count = "", "", 0
    for path in sorted(include.rglob("*.h")):
        name = str(path.relative_to(include))
        headers += f"#include <{name}>\n"
        for number, example in examples(path.read_text()):
            count += 1
            if example.startswith('"'):
                try:
                    json.loads("{" + example + "}")
                except ValueError as error:
                    sys.exit(f"{path}:{number}: this part of a job file is no JSON: {error}")
                continue
            more, text = compiled(name, number, example)
            headers += more
            code += text
    if count < 15:
        sys.exit(f"{include}: only {count} examples were found in its headers; has their form changed?")
    out.write_text(f'{headers}#include "tests/lint/example_names.h"\n\nnamespace ddprun::examples {{\n{code}}}\n')


if __name__ == "__main__":
    main()
