#!/usr/bin/env python3
"""Packs an installed tree of ddprun (cmake --install) into the wheel ddprun-worker: the trainer, the C++ library, its headers and its
CMake package, with the libraries that not every Linux has. torch is found beside it. The same inputs give the same bytes.

    scripts/wheel/pack_worker.py PREFIX VERSION TORCH PATCHELF FOLDER [LICENCES]     prints the path of the wheel in FOLDER

The wheel's name says for which torch it is, as its build. LICENCES is what scripts/wheel/licences.py has written; those of the
libraries of this machine that are packed are read here.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

from licences import of_library, with_common
from pack import ROOT, add, describe, read_licences

METADATA = """\
Metadata-Version: 2.1
Name: ddprun-worker
Version: {version}
Summary: Trains with DDP from a job file, without Python; and DistributedDataParallel for libtorch's C++ API
License: MIT
Requires-Python: >=3.8
Requires-Dist: ddprun=={version}
Requires-Dist: torch=={torch}
Description-Content-Type: text/markdown
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C++

The trainer `ddprun-worker` and the C++ library of ddprun, for torch {torch}, which is found in the same site-packages.

```sh
ddprun --nproc-per-node 2 "$(python -m ddprun --example)"
cmake -S . -B build -Dddprun_DIR="$(python -m ddprun --cmake-dir)"
```
"""

# From torch, or on every Linux (manylinux's list).
FOUND = re.compile(r"lib(torch|torch_cpu|torch_cuda|c10|c10_cuda|nccl|stdc\+\+|m|gcc_s|c|z|rt|dl|pthread|util)\.so|ld-linux")
# (N, M): manylinux_2_M is the oldest that has GLIBCXX_3.4.N, as auditwheel's policies say.
CPP_LIBRARIES = ((24, 28), (28, 31), (29, 34), (30, 35), (33, 39))
RUN_PATHS = {"bin": "$ORIGIN/../lib:$ORIGIN/../../torch/lib",
             "lib": "$ORIGIN:$ORIGIN/../../torch/lib:$ORIGIN/../../nvidia/nccl/lib"}


def run(*words):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


def needed(file):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", file))


def borrowed(files):
    """Libraries of this machine that the files need and that not every Linux has."""
    found, waiting = {}, list(files)
    own = {file.name for file in files}
    while waiting:
        file = waiting.pop()
        paths = dict(re.findall(r"(\S+) => (/\S+)", run("ldd", file)))
        for name in needed(file):
            if name not in own and name not in found and not FOUND.match(name):
                found[name] = pathlib.Path(paths[name]).resolve()
                waiting.append(found[name])
    return found


def needed_glibc(file):
    """The minor version of the oldest manylinux_2_… that has what a program or library asks of the C and the C++ library."""
    versions = run("readelf", "-V", file)
    glibc = max(map(int, re.findall(r"GLIBC_2\.(\d+)", versions)), default=0)
    cpp = max(map(int, re.findall(r"GLIBCXX_3\.4\.(\d+)", versions)), default=0)
    with_cpp = next((minor for newest, minor in CPP_LIBRARIES if cpp <= newest), None)
    if with_cpp is None:
        sys.exit(f"{file.name} needs GLIBCXX_3.4.{cpp}, and which manylinux has it is not known: add it to CPP_LIBRARIES")
    return max(glibc, with_cpp)


def read_job(path):
    """A job file whose comments have lines of their own, as those of configs/ do."""
    return json.loads(re.sub(r"^\s*//.*", "", path.read_text(), flags=re.MULTILINE))


def gather(prefix, patchelf, stage):
    """The folder ddprun_worker as it is to lie in site-packages. Returns the glibc that it needs, 35 for 2.35, and the licences of
    what was borrowed."""
    for folder in ("include", "lib"):
        shutil.copytree(prefix / folder, stage / folder, symlinks=True)
    (stage / "bin").mkdir()
    shutil.copy(prefix / "bin/ddprun-worker", stage / "bin")
    for link in stage.rglob("*"):  # a wheel has no links: each library stays under the name that programs ask for
        if link.is_symlink():
            link.unlink()
    for library in (stage / "lib").glob("libddprun.so.*"):
        soname = re.search(r"\(SONAME\).*\[(.*)\]", run("readelf", "-d", library))[1]
        library.rename(stage / "lib" / soname)
        targets = stage / "lib/cmake/ddprun/ddprunTargets-release.cmake"
        targets.write_text(targets.read_text().replace(library.name, soname))
    binaries = [stage / "bin/ddprun-worker", *sorted((stage / "lib").glob("*.so*"))]
    licences = {}
    for name, path in borrowed([prefix / "bin/ddprun-worker", *sorted((prefix / "lib").glob("*.so*"))]).items():
        licences.update([of_library(path)])
        shutil.copy(path, stage / "lib" / name)
        binaries.append(stage / "lib" / name)
    for binary in binaries:
        run("strip", "--strip-unneeded", binary)
        run(patchelf, "--set-rpath", RUN_PATHS[binary.parent.name], binary)
    config = stage / "lib/cmake/ddprun/ddprunConfig.cmake"
    text = re.sub(r'(EXISTS |set\(DDPRUN_TORCH )"[^"]*"', r'\1"${CMAKE_CURRENT_LIST_DIR}/../../../../torch"', config.read_text())
    config.write_text(text)
    for module in (ROOT / "scripts/wheel/ddprun_worker").glob("*.py"):
        shutil.copy(module, stage)
    example = stage / "example"
    shutil.copytree(ROOT / "configs/data/mnist-subset", example / "data/mnist-subset")
    job = read_job(ROOT / "configs/quickstart.json")
    for key in ("$schema", "output_dir"):
        del job[key]
    (example / "digits.json").write_text(json.dumps(job | {"name": "digits"}, indent=2) + "\n")
    return max(map(needed_glibc, binaries)), licences


def main(prefix, version, torch, patchelf, folder, licences=None):
    build = f"1torch{torch}"
    info = f"ddprun_worker-{version}.dist-info"
    records = []
    with tempfile.TemporaryDirectory() as temporary:
        stage = pathlib.Path(temporary) / "ddprun_worker"
        glibc, inside = gather(pathlib.Path(prefix), patchelf, stage)
        tag = f"py3-none-manylinux_2_{glibc}_x86_64"
        wheel = pathlib.Path(folder) / f"ddprun_worker-{version}-{build}-{tag}.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for file in sorted(path for path in stage.rglob("*") if path.is_file()):
                mode = 0o755 if file.parent.name == "bin" else 0o644
                add(archive, records, str(file.relative_to(temporary)), file.read_bytes(), mode)
            starter = (ROOT / "scripts/wheel/ddprun-worker").read_bytes()
            add(archive, records, f"ddprun_worker-{version}.data/scripts/ddprun-worker", starter, 0o755)
            for page in sorted((pathlib.Path(prefix) / "share/man/man1").glob("ddprun-worker.1")):
                add(archive, records, f"ddprun_worker-{version}.data/data/share/man/man1/{page.name}", page.read_bytes(), 0o644)
            inside = with_common(inside | (read_licences(licences) if licences else {}))
            describe(archive, records, info, METADATA.format(version=version, torch=torch), tag, inside, build)
    print(wheel)


if __name__ == "__main__":
    main(*sys.argv[1:])
