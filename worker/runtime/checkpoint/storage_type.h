#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string_view>

namespace ddprun::runtime {

/// "FloatStorage" for kFloat …; nullopt for types torch.load's weights_only mode does not take.
std::optional<std::string_view> storage_name(at::ScalarType type);
std::optional<at::ScalarType> scalar_type_of_storage(std::string_view name);

}  // namespace ddprun::runtime
