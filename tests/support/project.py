"""What the tree says of itself."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def project_version():
    """As scripts/common.sh has it: CMakeLists.txt alone says which version this is."""
    return re.search(r"^project\(ddprun VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
