#include "worker/models/shapes.h"

#include <ddprun/exception.h>

#include <c10/util/accumulate.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ddprun::models {

ImageSize images_of(const DataShape& data, const std::string& name) {
  const TensorShape& input = data.tensors.at(0);
  if (input.sizes.size() != 3) {
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("/model/type: {} takes images, and the data gives \"{}\" of shape [{}]; choose "
                    "a model for such data, or other data",
                    name, input.name, fmt::join(input.sizes, ", ")));
  }
  return {input.sizes[0], input.sizes[1], input.sizes[2]};
}

std::int64_t inputs_of(const DataShape& data) { return c10::multiply_integers(data.tensors.at(0).sizes); }

std::int64_t outputs_of(const DataShape& data) {
  return data.classes > 0 ? data.classes : c10::multiply_integers(data.tensors.at(1).sizes);
}

}  // namespace ddprun::models
