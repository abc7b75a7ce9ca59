#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// All of a small file, as it is in /proc and /sys; none when it cannot be opened or read to its end. Never
/// throws, which std::istreambuf_iterator does when read(2) fails, as it does with ESRCH for a file of a
/// process that ends meanwhile. Blocks for as long as the file does.
std::optional<std::string> try_read_text(const std::string& path);

/// The same, with nothing for none.
std::string read_text(const std::string& path);

/// The names in a folder, sorted; none when it cannot be read. Never throws.
std::vector<std::string> names_in(const std::string& folder);

}  // namespace ddprun
