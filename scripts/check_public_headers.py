#!/usr/bin/env python3
"""Every public header includes itself what it names: of the standard library, and of the other public headers.

What it lacks comes with libtorch's headers today and may not come with those of the next release, so compiling it alone
does not show that; that libtorch's own names are included is seen there (tests/lint).
"""

import pathlib
import re
import sys

PUBLIC = pathlib.Path(__file__).resolve().parent.parent / "worker/include"

# header: what it gives of std. A name of two headers stands in that of its class.
STANDARD = {
    "array": "array",
    "chrono": "chrono",
    "concepts": "floating_point integral",
    "cstddef": "byte ptrdiff_t size_t",
    "cstdint": "int64_t uint32_t uint64_t",
    "exception": "exception exception_ptr",
    "functional": "function reference_wrapper",
    "initializer_list": "initializer_list",
    "iosfwd": "ostream",
    "iostream": "cout",
    "limits": "numeric_limits",
    "map": "map",
    "memory": "dynamic_pointer_cast make_shared make_unique shared_ptr unique_ptr weak_ptr",
    "optional": "nullopt optional",
    "set": "set",
    "span": "span",
    "stdexcept": "runtime_error",
    "string": "string",
    "string_view": "string_view",
    "tuple": "apply tuple",
    "type_traits": "bool_constant conjunction enable_if_t false_type is_arithmetic_v is_base_of_v is_copy_constructible_v is_same_v is_signed_v is_void_v "
                   "remove_const_t remove_cvref_t type_identity_t",
    "unordered_map": "unordered_map",
    "utility": "declval forward index_sequence index_sequence_for move pair",
    "variant": "holds_alternative monostate variant",
    "vector": "erase_if vector",
}
HEADER_OF = {name: header for header, names in STANDARD.items() for name in names.split()}


def includes(text):
    return set(re.findall(r"^#include [<\"]([^>\"]+)[>\"]", text, re.MULTILINE))


def declared(text):
    """The types that a header declares: those at the start of a line are others' to include, unless of a namespace within."""
    if re.search(r"^namespace ddprun::\w+ \{", text, re.MULTILINE):
        return set()
    return set(re.findall(r"^(?:class|struct|enum class) (\w+)(?= final| :| \{)", text, re.MULTILINE)) | set(
        re.findall(r"^using (\w+) =", text, re.MULTILINE))


def problems(headers):
    owner = {name: header for header, text in headers.items() for name in declared(text)}
    for header, text in headers.items():
        given = includes(text)
        code = re.sub(r"^#include[^\n]*", "", text, flags=re.MULTILINE)
        named = set(re.findall(r"std::(\w+)", code))
        for name in sorted(named - HEADER_OF.keys()):
            yield f"{header}: std::{name} is in no row of scripts/check_public_headers.py; add it there"
        wanted = {HEADER_OF[name]: name for name in sorted(named & HEADER_OF.keys(), reverse=True)}
        for file in sorted(wanted.keys() - given):
            yield f"{header}: names std::{wanted[file]} and does not include <{file}>"
        for file in sorted((given & STANDARD.keys()) - wanted.keys()):
            yield f"{header}: includes <{file}> and names nothing of it"
        own = set(re.findall(r"\b(?:class|struct) (\w+)", code)) | set(re.findall(r"\busing (\w+) =", code))
        for name in sorted(set(re.findall(r"\b\w+\b", code)) & owner.keys() - own):
            of_the_trainer = "trainer/" in owner[name] and "trainer/" not in header  # where Batch is another word
            if owner[name] != header and owner[name] not in given and not of_the_trainer:
                yield f"{header}: names {name} and does not include <{owner[name]}>"


def main():
    headers = {str(path.relative_to(PUBLIC)): re.sub(r"//[^\n]*", "", path.read_text()) for path in sorted(PUBLIC.rglob("*.h"))}
    found = list(problems(headers))
    print("\n".join(found))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
