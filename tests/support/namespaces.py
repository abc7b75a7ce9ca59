"""What this place lets a test make."""

import functools
import os
import subprocess

from skips import skip_unless

PID_NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc")


@functools.cache
def why_no_pid_namespace():
    """Empty where one can be made. Not even root can in a chroot whose / is no mount point, for example."""
    if os.geteuid() != 0:
        return "needs root to make a pid namespace"
    probe = subprocess.run([*PID_NAMESPACE, "true"], capture_output=True, text=True, check=False)
    return f"no pid namespace can be made here: {probe.stderr.strip()}" if probe.returncode != 0 else ""


def needs_pid_namespace(test):
    return skip_unless(not why_no_pid_namespace(), why_no_pid_namespace())(test)
