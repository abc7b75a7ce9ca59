#pragma once

#include "rendezvous/base/result.h"

#include <string>
#include <utility>

namespace ddprun::runtime {

/// What a reader says of a damaged file.
inline Error corrupt(std::string message) { return {ErrorCode::kCorrupt, std::move(message)}; }

}  // namespace ddprun::runtime
