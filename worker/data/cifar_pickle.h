#pragma once

#include "rendezvous/base/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::data {

/// What a file of CIFAR holds.
struct LabelledRows {
  std::vector<std::int64_t> labels;
  std::vector<std::uint8_t> pixels;  ///< a row an image
};

/// Reads the labels under `label_key` and the rows under "data" of a pickled dict, as the authors of CIFAR wrote it.
/// Nothing in it is executed (runtime/checkpoint/unpickle.h).
///
/// Errors  kCorrupt, naming `path`: damaged, or another thing than that.
Result<LabelledRows> read_pickled_rows(const std::vector<std::uint8_t>& bytes, const std::string& label_key,
                                       const std::string& path);

/// The list of texts under `key`.
/// Errors  as above.
Result<std::vector<std::string>> read_pickled_names(const std::vector<std::uint8_t>& bytes,
                                                    const std::string& key, const std::string& path);

}  // namespace ddprun::data
