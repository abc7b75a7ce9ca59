#!/usr/bin/env python3
"""Packs the program ddprun and scripts/wheel/ddprun into a wheel. The same inputs give the same bytes.

    scripts/wheel/pack.py PROGRAM VERSION GLIBC FOLDER     prints the path of the wheel in FOLDER
"""

import base64
import hashlib
import pathlib
import sys
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
"""


def add(archive, records, name, data, mode):
    entry = zipfile.ZipInfo(name, EARLIEST)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (0o100000 | mode) << 16
    archive.writestr(entry, data, compresslevel=9)
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    records.append(f"{name},sha256={digest},{len(data)}\n")


def describe(archive, records, info, metadata, tag):
    """What every wheel says of itself; the last of its files."""
    add(archive, records, f"{info}/METADATA", metadata.encode(), 0o644)
    add(archive, records, f"{info}/WHEEL", WHEEL.format(tag=tag).encode(), 0o644)
    add(archive, records, f"{info}/LICENSE", (ROOT / "LICENSE").read_bytes(), 0o644)
    add(archive, [], f"{info}/RECORD", "".join([*records, f"{info}/RECORD,,\n"]).encode(), 0o644)


def main(program, version, glibc, folder):
    tag = f"py3-none-manylinux_{glibc.replace('.', '_')}_x86_64"
    wheel = pathlib.Path(folder) / f"ddprun-{version}-{tag}.whl"
    data, info = f"ddprun-{version}.data", f"ddprun-{version}.dist-info"
    records = []
    with zipfile.ZipFile(wheel, "w") as archive:
        for module in sorted((ROOT / "scripts/wheel/ddprun").glob("*.py")):
            add(archive, records, f"ddprun/{module.name}", module.read_bytes(), 0o644)
        add(archive, records, f"{data}/scripts/ddprun", pathlib.Path(program).read_bytes(), 0o755)
        describe(archive, records, info, METADATA.format(version=version), tag)
    print(wheel)


if __name__ == "__main__":
    main(*sys.argv[1:])
