#pragma once

#include <sys/resource.h>

namespace ddprun::launcher {

/// Opens /dev/null in place of each of stdin, stdout and stderr that this process was started without, or a
/// pipe would be mistaken for it.
void ensure_stdio();

/// Raises the soft limit of open files to the hard one, for three descriptors a worker; returns what it was,
/// which the workers get back.
rlimit raise_open_files();

}  // namespace ddprun::launcher
