"""The launcher ddprun, as a program in this environment."""

import os
import sysconfig

__all__ = ["find_binary"]


def find_binary():
    """The path of the program ddprun that this package brought. Raises FileNotFoundError with the places looked at."""
    # Where pip puts programs: of this environment, of --user, and of --target and --prefix, which have theirs beside us.
    here = os.path.dirname(os.path.abspath(__file__))
    places = [sysconfig.get_path("scripts")]
    if "posix_user" in sysconfig.get_scheme_names():
        places.append(sysconfig.get_path("scripts", scheme="posix_user"))
    places.append(os.path.join(os.path.dirname(here), "bin"))
    places.append(os.path.normpath(os.path.join(here, *[os.pardir] * 4, "bin")))
    for place in places:
        program = os.path.join(place, "ddprun")
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return program
    raise FileNotFoundError(f"the program ddprun is in none of {', '.join(places)}; pip install --force-reinstall ddprun brings it back")
