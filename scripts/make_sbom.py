#!/usr/bin/env python3
"""Prints the bill of materials of a wheel, as CycloneDX 1.5 in JSON: the Debian packages whose headers, archives and libraries went
into it, as ninja noted them when it built, what came from PyPI's compiler, whose C++ library is inside, and the torch whose headers are.

    scripts/make_sbom.py BUILD VERSION [ddprun|ddprun-worker]     of the launcher's wheel unless it says another

The same build gives the same bytes; the time is SOURCE_DATE_EPOCH's.
"""

import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse
import uuid

PARTS = {"ddprun": ("launcher/", "rendezvous/", "configs/"), "ddprun-worker": ("worker/", "rendezvous/", "configs/")}
# Packages that scripts/setup.sh has unpacked instead of installing them, each in its folder.
UNPACKED = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache").resolve() / "ddprun"
NAMESPACE = uuid.UUID("6a4f6f0c-90d4-5c4e-9c37-5f0f8f0a6c11")


def run(*words):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


def headers(build, parts):
    """The real paths of all files of this machine's packages that the objects of these folders were compiled from."""
    found, is_ours = set(), False
    for line in run("ninja", "-C", build, "-t", "deps").splitlines():
        if line and not line.startswith(" "):
            is_ours = line.startswith(parts)
        elif is_ours and line:
            found.add(os.path.realpath(build / line.strip()))
    return sorted(path for path in found if path.startswith(("/usr/", f"{UNPACKED}/")))


def unpacked(files):
    """[name, version, architecture] of the packages in UNPACKED that these files are of."""
    folders = {pathlib.Path(path).relative_to(UNPACKED).parts[0] for path in files if path.startswith(f"{UNPACKED}/")}
    controls = [(UNPACKED / folder / "DEBIAN/control").read_text() for folder in sorted(folders)]
    return [[re.search(rf"^{field}: (.+)$", control, re.MULTILINE)[1] for field in ("Package", "Version", "Architecture")] for control in controls]


def packages(files):
    """[name, version, architecture] of the Debian packages that own these files. The C library's is left out: it is not inside."""
    names = set()
    installed = [path for path in files if path.startswith("/usr/")]
    for begin in range(0, len(installed), 1000):
        owners = subprocess.run(["dpkg-query", "-S", *installed[begin:begin + 1000]], capture_output=True, text=True, check=False).stdout
        names |= {owner.split(":")[0] for owner in re.findall(r"^([^ ]+): /", owners, re.MULTILINE)}
    names = {name for name in names if not re.match(r"libc6|linux-libc|libstdc\+\+|libgcc|gcc|g\+\+|cpp", name)}
    lines = run("dpkg-query", "-W", "-f", "${Package} ${Version} ${Architecture}\n", *sorted(names)).splitlines()
    return sorted([line.split(" ") for line in lines] + unpacked(files))


def component(name, version, purl):
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def torch_of(build):
    """The release of the torch that is compiled with, as the build was configured."""
    folder = re.search(r"^DDPRUN_TORCH:PATH=(.+)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE)[1]
    return re.search(r"""^__version__ = ['"]([^'"+]+)""", (pathlib.Path(folder) / "version.py").read_text(), re.MULTILINE)[1]


def main(build, version, wheel="ddprun"):
    build = pathlib.Path(build)
    files = headers(build, PARTS[wheel])
    if not files:
        sys.exit(f"{sys.argv[0]}: {build} has no objects of {wheel}; build it there with ninja")
    inside = [component(name, its, f"pkg:deb/debian/{name}@{urllib.parse.quote(its, safe='')}?arch={arch}") for name, its, arch in packages(files)]
    for compiler in sorted(build.glob("tools/lib/python3*/site-packages/ziglang-*.dist-info")):
        its = compiler.name.split("-")[1].removesuffix(".dist")
        inside.append(component("ziglang", its, f"pkg:pypi/ziglang@{its}"))
    if wheel == "ddprun-worker":
        torch = torch_of(build)
        inside.append(component("torch", torch, f"pkg:pypi/torch@{torch}"))
    own = f"pkg:pypi/{wheel}@{version}"
    time = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
    bill = {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {"type": "application", "bom-ref": own, "name": wheel, "version": version, "purl": own,
                          "licenses": [{"license": {"id": "MIT"}}]}},
        "components": inside,
        "dependencies": [{"ref": own, "dependsOn": [each["bom-ref"] for each in inside]}],
    }
    bill["serialNumber"] = f"urn:uuid:{uuid.uuid5(NAMESPACE, json.dumps(bill, sort_keys=True))}"
    print(json.dumps(bill, indent=2, sort_keys=True))


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4) or sys.argv[3:] not in ([], *([name] for name in PARTS)):
        sys.exit(__doc__)
    main(*sys.argv[1:])
