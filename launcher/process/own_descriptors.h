#pragma once

#include "rendezvous/base/result.h"

#include <sys/resource.h>

#include <cstddef>
#include <string_view>

namespace ddprun::launcher {

/// The first thing a program of ours does, before it opens any file: puts /dev/null in place of each of stdin, stdout
/// and stderr that it was started without, or what is opened next would be taken for it (as stdout it refuses what is
/// written with EBADF, so that no answer is lost without a word); and ignores SIGPIPE, so that a reader that leaves
/// is an error of a write and not the end. Workers get the default back.
void own_standard_streams();

/// Raises the soft limit of open files to the hard one, for three descriptors a worker and one a connection;
/// returns what it was, which the workers get back. kOs, naming `who`, where not even `needed` can be open.
Result<rlimit> raise_open_files(std::string_view who, std::size_t needed);

}  // namespace ddprun::launcher
