#!/usr/bin/env python3
"""Writes the tables of configs/README.md from configs/train.schema.json; with --check, only says whether they differ.

The text above the marker is written by hand, everything below it is generated.
"""

import json
import pathlib
import sys

CONFIGS = pathlib.Path(__file__).resolve().parent.parent / "configs"
MARKER = "<!-- below: scripts/make_config_docs.py -->\n"


def limits(schema):
    words = []
    if "minimum" in schema and "maximum" in schema:
        return f" {schema['minimum']} … {schema['maximum']}"
    if "minimum" in schema:
        words.append(f"≥ {schema['minimum']}")
    if "exclusiveMinimum" in schema:
        words.append(f"> {schema['exclusiveMinimum']}")
    if "maximum" in schema:
        words.append(f"≤ {schema['maximum']}")
    if "exclusiveMaximum" in schema:
        words.append(f"< {schema['exclusiveMaximum']}")
    return " " + ", ".join(words) if words else ""


def type_words(schema):
    if "x-list" in schema:
        return f"a name that `ddprun list {schema['x-list']}` shows"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    words = []
    for name in types:
        if name == "array":
            words.append(f"list of {type_words(schema['items'])}")
        elif name in ("integer", "number"):
            words.append(name + limits(schema))
        else:
            words.append(name)
    return " or ".join(words)


def default_words(schema, required):
    if required or schema.get("x-required"):
        return "required"
    return f"`{json.dumps(schema['default'], ensure_ascii=False)}`" + "".join(
        f"; `{value}` with " + ", ".join(f"`{name}`" for name in names) for value, names in other_defaults(schema).items())


def other_defaults(schema):
    """value → those of a sibling's values with which it is the default"""
    names = {}
    for (_, values) in schema.get("x-defaults", {}).items():
        for name, value in values.items():
            names.setdefault(json.dumps(value), []).append(name)
    return names


def condition_words(schema):
    if "x-with" in schema:
        return f" Only with `{schema['x-with']}`."
    if "x-when" not in schema:
        return ""
    (sibling, values), = schema["x-when"].items()
    return f" Only with `{sibling}` " + " or ".join(f"`{value}`" for value in values) + "."


def rows(schema, pointer):
    for name, inner in schema["properties"].items():
        if inner["type"] == "object" and inner["properties"]:
            if pointer:
                yield f"| `{pointer}/{name}` | object | `{{}}` | {inner['description']}{condition_words(inner)} |"
                yield from rows(inner, f"{pointer}/{name}")
            continue
        required = name in schema.get("required", [])
        yield (f"| `{pointer}/{name}` | {type_words(inner)} | {default_words(inner, required)} "
               f"| {inner['description']}{condition_words(inner)} |")


def section(title, text, schema, pointer):
    return [f"## {title}", "", text, "", "| key | type and range | default | meaning |", "|---|---|---|---|",
            *rows(schema, pointer), ""]


def tables():
    schema = json.loads((CONFIGS / "train.schema.json").read_text())
    lines = section("Top level", "The job itself.", schema, "")
    for name, inner in schema["properties"].items():
        if inner["type"] == "object" and inner["properties"]:
            needed = " Required." if name in schema["required"] else ""
            lines += section(f"`{name}`", inner["description"] + needed + condition_words(inner), inner, f"/{name}")
    return "\n".join(lines).rstrip() + "\n"


def main():
    readme = CONFIGS / "README.md"
    text = readme.read_text()
    wanted = text.split(MARKER)[0] + MARKER + "\n" + tables()
    if "--check" in sys.argv[1:]:
        if text != wanted:
            sys.exit("configs/README.md is behind configs/train.schema.json: run scripts/make_config_docs.py")
        return
    readme.write_text(wanted)


if __name__ == "__main__":
    main()
