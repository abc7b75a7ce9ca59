#!/usr/bin/env python3
"""Packs the program ddprun and scripts/wheel/ddprun into a wheel. The same inputs give the same bytes.

    scripts/wheel/pack.py PROGRAM VERSION GLIBC FOLDER [LICENCES]     prints the path of the wheel in FOLDER

LICENCES is what scripts/wheel/licences.py has written.
"""

import base64
import hashlib
import pathlib
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
EARLIEST = (1980, 1, 1, 0, 0, 0)

METADATA = """\
Metadata-Version: 2.1
Name: ddprun
Version: {version}
Summary: A multi-GPU training launcher: torchrun's flags, in milliseconds, and it says which rank broke first and why
License: MIT
Requires-Python: >=3.8
Provides-Extra: worker
Requires-Dist: ddprun-worker=={version}; extra == "worker"
Description-Content-Type: text/markdown
Classifier: Environment :: Console
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C++

The launcher `ddprun` in place of torchrun, for any PyTorch that is installed beside it. It needs nothing else.
`ddprun[worker]` brings a trainer that needs no Python, and the C++ library, for one release of PyTorch.

```sh
ddprun --nproc-per-node 2 train.py --lr 0.1
ddprun --nproc-per-node 2 "$(python -m ddprun --example)"
ddprun --help
```
"""

WHEEL = """\
Wheel-Version: 1.0
Generator: scripts/wheel/pack.py
Root-Is-Purelib: false
Tag: {tag}
{build}"""


def add(archive, records, name, data, mode):
    entry = zipfile.ZipInfo(name, EARLIEST)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (0o100000 | mode) << 16
    archive.writestr(entry, data, compresslevel=9)
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    records.append(f"{name},sha256={digest},{len(data)}\n")


def man_pages(program):
    """{place below the environment: text} of the pages of the launcher, which is asked for what they say."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-B", ROOT / "scripts/make_man.py", program, folder], check=True)
        return {f"share/man/man{name[-1]}/{name}": (pathlib.Path(folder) / name).read_bytes() for name in ("ddprun-job.5", "ddprun.1")}


def read_licences(folder):
    """{package: what it says} of a folder of scripts/wheel/licences.py."""
    return {file.name: file.read_bytes() for file in pathlib.Path(folder).iterdir()}


def describe(archive, records, info, metadata, tag, licences, build=""):
    """What every wheel says of itself, and of what is inside; the last of its files."""
    add(archive, records, f"{info}/METADATA", metadata.encode(), 0o644)
    add(archive, records, f"{info}/WHEEL", WHEEL.format(tag=tag, build=f"Build: {build}\n" if build else "").encode(), 0o644)
    add(archive, records, f"{info}/LICENSE", (ROOT / "LICENSE").read_bytes(), 0o644)
    for name, text in sorted(licences.items()):
        add(archive, records, f"{info}/licenses/{name}", text, 0o644)
    add(archive, [], f"{info}/RECORD", "".join([*records, f"{info}/RECORD,,\n"]).encode(), 0o644)


def main(program, version, glibc, folder, licences=None):
    tag = f"py3-none-manylinux_{glibc.replace('.', '_')}_x86_64"
    wheel = pathlib.Path(folder) / f"ddprun-{version}-{tag}.whl"
    data, info = f"ddprun-{version}.data", f"ddprun-{version}.dist-info"
    records = []
    with zipfile.ZipFile(wheel, "w") as archive:
        for module in sorted((ROOT / "scripts/wheel/ddprun").glob("*.py")):
            add(archive, records, f"ddprun/{module.name}", module.read_bytes(), 0o644)
        for file in sorted((ROOT / "scripts/launch").iterdir()):
            add(archive, records, f"ddprun/launch/{file.name}", file.read_bytes(), 0o755 if file.stat().st_mode & 0o100 else 0o644)
        add(archive, records, f"{data}/scripts/ddprun", pathlib.Path(program).read_bytes(), 0o755)
        for place, text in man_pages(program).items():
            add(archive, records, f"{data}/data/{place}", text, 0o644)
        describe(archive, records, info, METADATA.format(version=version), tag, read_licences(licences) if licences else {})
    print(wheel)


if __name__ == "__main__":
    main(*sys.argv[1:])
