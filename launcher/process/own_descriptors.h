#pragma once

#include <sys/resource.h>

namespace ddprun::launcher {

/// The first thing a program of ours does, before it opens any file: puts /dev/null in place of each of
/// stdin, stdout and stderr that it was started without, or what is opened next would be taken for it; and
/// ignores SIGPIPE, so that a reader that leaves is an error of a write and not the end. Workers get the
/// default back.
void own_standard_streams();

/// Raises the soft limit of open files to the hard one, for three descriptors a worker and one a connection;
/// returns what it was, which the workers get back.
rlimit raise_open_files();

}  // namespace ddprun::launcher
