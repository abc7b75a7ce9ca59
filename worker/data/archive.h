#pragma once

#include "rendezvous/base/result.h"

#include <string>
#include <vector>

namespace ddprun::data {

/// Takes the files `members` out of a .tar.gz into `folder`, by the last part of their names. Each is written under
/// another name first, and they get their own in the order of `members` when all are whole.
///
/// Errors  kCorrupt: damaged, or a member is not in it; kOs: it cannot be read, or they cannot be written.
Result<void> unpack_tar_gz(const std::string& path, const std::vector<std::string>& members,
                           const std::string& folder);

}  // namespace ddprun::data
