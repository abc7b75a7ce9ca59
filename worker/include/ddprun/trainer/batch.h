#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

/// Samples that are computed on together: one tensor for each entry of DataShape::tensors, in that order, with
/// the samples as first dimension.
struct Batch {
  std::vector<at::Tensor> tensors;
  std::int64_t samples = 0;
};

/// What one sample has of one tensor of a batch.
struct TensorShape {
  std::string name;                 ///< "image", "label", "tokens": for messages and summaries
  std::vector<std::int64_t> sizes;  ///< without the batch's dimension; empty: a single value
  at::ScalarType dtype = at::kFloat;
};

/// What a data source yields, known before a model is made for it.
struct DataShape {
  /// The first one is what the model is fed; the others are for the task.
  std::vector<TensorShape> tensors;
  std::int64_t classes = 0;                ///< classes, or size of the vocabulary; 0: targets are no classes
  std::vector<std::string> class_names{};  ///< by class; empty where the data does not tell
  std::vector<std::string> columns{};      ///< of a table: what a sample's numbers are; or empty
  std::string scaling{};         ///< how numbers were scaled, in words; empty where the data does not tell
  std::string unit = "samples";  ///< what a rate counts: "images", "tokens"
  std::int64_t units_per_sample = 1;
};

}  // namespace ddprun
