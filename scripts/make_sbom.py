#!/usr/bin/env python3
"""Prints the bill of materials of the launcher, as CycloneDX 1.5 in JSON: the Debian packages whose headers and archives went into
the program, as ninja noted them when it built, and the compiler where it came from PyPI, whose C++ library is inside.

    scripts/make_sbom.py BUILD VERSION     the same build gives the same bytes; the time is SOURCE_DATE_EPOCH's
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

OURS = ("launcher/", "rendezvous/", "configs/")
NAMESPACE = uuid.UUID("6a4f6f0c-90d4-5c4e-9c37-5f0f8f0a6c11")


def run(*words):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


def headers(build, parts=OURS):
    """The real paths of all files outside the tree that the objects of these folders, the launcher's, were compiled from."""
    found, is_ours = set(), False
    for line in run("ninja", "-C", build, "-t", "deps").splitlines():
        if line and not line.startswith(" "):
            is_ours = line.startswith(parts)
        elif is_ours and line:
            found.add(os.path.realpath(build / line.strip()))
    return sorted(path for path in found if path.startswith("/usr/"))


def packages(files):
    """[name, version, architecture] of the Debian packages that own these files. The C library's is left out: it is not inside."""
    names = set()
    for begin in range(0, len(files), 1000):
        owners = subprocess.run(["dpkg-query", "-S", *files[begin:begin + 1000]], capture_output=True, text=True, check=False).stdout
        names |= {owner.split(":")[0] for owner in re.findall(r"^([^ ]+): /", owners, re.MULTILINE)}
    names = {name for name in names if not re.match(r"libc6|linux-libc|libstdc\+\+|libgcc|gcc|g\+\+|cpp", name)}
    lines = run("dpkg-query", "-W", "-f", "${Package} ${Version} ${Architecture}\n", *sorted(names)).splitlines()
    return [line.split(" ") for line in lines]


def component(name, version, purl):
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def main(build, version):
    build = pathlib.Path(build)
    files = headers(build)
    if not files:
        sys.exit(f"{sys.argv[0]}: {build} has no objects of the launcher; build the target ddprun there with ninja")
    inside = [component(name, its, f"pkg:deb/debian/{name}@{urllib.parse.quote(its, safe='')}?arch={arch}") for name, its, arch in packages(files)]
    for compiler in sorted(build.glob("tools/lib/python3*/site-packages/ziglang-*.dist-info")):
        its = compiler.name.split("-")[1].removesuffix(".dist")
        inside.append(component("ziglang", its, f"pkg:pypi/ziglang@{its}"))
    own = f"pkg:pypi/ddprun@{version}"
    time = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
    bill = {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {"type": "application", "bom-ref": own, "name": "ddprun", "version": version, "purl": own,
                          "licenses": [{"license": {"id": "MIT"}}]}},
        "components": inside,
        "dependencies": [{"ref": own, "dependsOn": [each["bom-ref"] for each in inside]}],
    }
    bill["serialNumber"] = f"urn:uuid:{uuid.uuid5(NAMESPACE, json.dumps(bill, sort_keys=True))}"
    print(json.dumps(bill, indent=2, sort_keys=True))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
