#pragma once

#include <string_view>

namespace ddprun::config {

/// The text of configs/train.schema.json, as it was when this binary was built.
std::string_view train_schema_text();

}  // namespace ddprun::config
