#pragma once

#include <ddprun/group.h>
#include <ddprun/pt_value.h>

#include <cstddef>
#include <span>
#include <string>

namespace ddprun::runtime {

/// On every rank but `from_rank`, the bytes that that one has, sent in pieces of 16 MiB, which on a GPU's backend is
/// what its memory is needed for. On `from_rank`, nothing. Collective.
std::string share_bytes(const Group& group, std::span<const std::byte> bytes, int from_rank);

/// On every rank but `from_rank`, the value in the file whose bytes that one has, shared as by share_bytes. On
/// `from_rank`, which has it, None. `name` is what messages call it. Collective.
PtValue share_pt(const Group& group, std::span<const std::byte> bytes, const std::string& name,
                 int from_rank);

}  // namespace ddprun::runtime
