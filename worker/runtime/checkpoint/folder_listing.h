#pragma once

#include "rendezvous/base/result.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::runtime {

/// The names in `folder` that `is_wanted` and that are files, or links to files, in no order; none where there is no
/// folder of that name. One that was removed since the folder was read, or whose inode cannot be read, is among them:
/// to open it says so.
/// Errors  kOs: the folder cannot be read; a link leads to nothing, as where a mount is missing, or something else than
///         a folder has the name of it or of one above it. So no names are never a failure in disguise: who asks what a
///         folder holds may begin at step 0 for the want of an answer.
Result<std::vector<std::string>> files_in(const std::string& folder,
                                          const std::function<bool(std::string_view name)>& is_wanted);

/// The link that leads to nothing and has the name of `folder`, or of one above it, and what it is, in words;
/// nullopt: there is none, or the folder is there.
std::optional<std::string> link_to_nothing(const std::string& folder);

}  // namespace ddprun::runtime
