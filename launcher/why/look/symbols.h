#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::launcher::why {

/// The value of a symbol in an ELF file's .symtab, local ones included; nullopt: it has none of that name. The answer
/// is kept for as long as this process runs and the file is the same, by device, inode, size and time of change: the
/// table of libtorch has 550,000 of them.
///
/// Threads  for a process with one.
std::optional<std::uint64_t> symbol_value(const std::string& file, const std::string& name);

}  // namespace ddprun::launcher::why
