#pragma once

#include "launcher/why/facts/facts.h"
#include "launcher/why/look/memberships.h"
#include "launcher/why/look/process_memory.h"

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::launcher::why {

/// Reads PyTorch's flight recorder from a memory where the pointer to it lies at `instance`. The layout is that of
/// torch 2.11 to 2.15; one that cannot be that is told as a problem. Only the newest `most` entries are read.
Recorder read_recorder(const ReadMemory& memory, std::uint64_t instance, std::size_t most);

/// Where gloo's recorder, NCCL's and the registry of groups lie in a process; no recorders: it has no libtorch.
GroupPlaces find_recorders(pid_t pid);

/// The value of a symbol in an ELF file's .symtab, local ones included; nullopt: it has none of that name.
std::optional<std::uint64_t> symbol_value(const std::string& file, const std::string& name);

}  // namespace ddprun::launcher::why
