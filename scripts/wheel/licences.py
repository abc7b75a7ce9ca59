#!/usr/bin/env python3
"""Gathers the licences of what is inside a build that is not ours: what each Debian package says whose headers and archives went into
the objects, and what zig's C++ library says where zig compiled them.

    scripts/wheel/licences.py BUILD FOLDER PART…     writes FOLDER/PACKAGE of what BUILD's objects below the folders PART were built from
"""

import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import make_sbom  # noqa: E402

DOCUMENTS = pathlib.Path("/usr/share/doc")


def of_package(name):
    """What the Debian package says of its copyright."""
    file = next(make_sbom.UNPACKED.glob(f"*/usr/share/doc/{name}/copyright"), DOCUMENTS / name / "copyright")
    if not file.exists():
        sys.exit(f"{file} is not there, and a package must not be handed on without it: apt-get install --reinstall {name}")
    return file.read_bytes()


def of_library(path):
    """(package, what it says) of the Debian package that a shared library is from."""
    # By its name: a package may say /lib for what is in /usr/lib.
    said = subprocess.run(["dpkg-query", "-S", f"*/{path.name}"], capture_output=True, text=True, check=False).stdout
    if not said:
        sys.exit(f"no Debian package brought {path}, so that its licence is not known")
    name = said.split(":")[0]
    return name, of_package(name)


def with_common(texts):
    """Packages leave the words of common licences to Debian, which not everybody has who gets what we pack."""
    said = b"\n".join(texts.values()).decode(errors="replace")
    names = set(re.findall(r"/usr/share/common-licenses/([A-Za-z]+(?:-[0-9.]*[0-9])?)", said))
    files = {f"common-licence-{name}": pathlib.Path("/usr/share/common-licenses") / name for name in names}
    return texts | {name: file.read_bytes() for name, file in files.items() if file.exists()}


def of_compiler(build):
    for library in ("libcxx", "libcxxabi", "libunwind"):
        for file in sorted(build.glob(f"tools/lib/python3*/site-packages/ziglang/lib/{library}/LICENSE*")):
            yield library, file.read_bytes()


def main(build, folder, *parts):
    build, folder = pathlib.Path(build), pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    packages = make_sbom.packages(make_sbom.headers(build, parts))
    for name, text in with_common({name: of_package(name) for name, _, _ in packages} | dict(of_compiler(build))).items():
        (folder / name).write_bytes(text)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
