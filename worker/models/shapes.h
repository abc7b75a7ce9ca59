#pragma once

#include <ddprun/trainer/batch.h>

#include <cstdint>
#include <string>

namespace ddprun::models {

struct ImageSize {
  std::int64_t channels = 0, height = 0, width = 0;
};

/// The images that `data` has for model `name`. Errors: Exception kConfig where it has none, or where a side is
/// below `smallest_side`.
ImageSize images_of(const DataShape& data, const std::string& name, std::int64_t smallest_side = 1);

/// The most tokens that a sample of `data` has for model `name`. Errors: Exception kConfig where it has no text,
/// or no vocabulary.
std::int64_t tokens_of(const DataShape& data, const std::string& name);

/// How many numbers a sample of the input of model `name` is. Errors: Exception kConfig where they are no floats.
std::int64_t inputs_of(const DataShape& data, const std::string& name);

/// How many numbers a model gives for a sample: one per class, else as many as the target has.
std::int64_t outputs_of(const DataShape& data);

}  // namespace ddprun::models
