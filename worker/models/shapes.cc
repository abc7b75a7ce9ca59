#include "worker/models/shapes.h"

#include <ddprun/exception.h>

#include <c10/util/accumulate.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ddprun::models {
namespace {

void check_floats(const TensorShape& input, const std::string& name) {
  if (c10::isFloatingType(input.dtype)) return;
  throw Exception(
      ErrorCode::kConfig,
      fmt::format("/model/type: {} takes numbers, and the data gives \"{}\" as {}; choose a model for "
                  "such data (gpt for tokens), or other data",
                  name, input.name, at::toString(input.dtype)));
}

[[noreturn]] void refuse_input(const DataShape& data, const std::string& name, const std::string& wanted) {
  const TensorShape& input = data.tensors.at(0);
  throw Exception(ErrorCode::kConfig,
                  fmt::format("/model/type: {} takes {}, and the data gives \"{}\" of shape [{}]; choose "
                              "a model for such data, or other data",
                              name, wanted, input.name, fmt::join(input.sizes, ", ")));
}

}  // namespace

ImageSize images_of(const DataShape& data, const std::string& name, std::int64_t smallest_side) {
  const std::vector<std::int64_t>& sizes = data.tensors.at(0).sizes;
  if (sizes.size() != 3) refuse_input(data, name, "images");
  check_floats(data.tensors.at(0), name);
  if (std::min(sizes[1], sizes[2]) < smallest_side)
    refuse_input(data, name, fmt::format("images of at least {} × {} pixels", smallest_side, smallest_side));
  return {sizes[0], sizes[1], sizes[2]};
}

std::int64_t tokens_of(const DataShape& data, const std::string& name) {
  if (data.tensors.at(0).sizes.size() != 1 || data.classes == 0)
    refuse_input(data, name, "tokens of a vocabulary");
  return data.tensors.at(0).sizes[0];
}

std::int64_t inputs_of(const DataShape& data, const std::string& name) {
  check_floats(data.tensors.at(0), name);
  return c10::multiply_integers(data.tensors.at(0).sizes);
}

std::int64_t outputs_of(const DataShape& data) {
  return data.classes > 0 ? data.classes : c10::multiply_integers(data.tensors.at(1).sizes);
}

}  // namespace ddprun::models
