#pragma once

#include "worker/transforms/draws.h"
#include "worker/transforms/normalize.h"
#include "worker/transforms/registry.h"
#include "worker/transforms/transform.h"
#include <ddprun/trainer/options.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::transforms {

/// What a chain is made for.
struct ChainInput {
  std::int64_t channels = 3;
  std::optional<Size> size;     ///< null: the images have different sizes
  Normalization normalization;  ///< of the data, where the list does not say another one
};

/// From bytes to the floats a model is fed: transforms in the order of a job file's list, then conversion and
/// normalisation in one pass, then random_erasing.
///
/// The list's last entries may be {"type": "normalize", "mean": […], "std": […], "scaling": "divide" or
/// "multiply"} (without it the data's own values hold) and {"type": "random_erasing", "p": 0.5, "scale":
/// [0.02, 0.33], "ratio": [0.3, 3.3], "value": 0}, which erases in normalised values.
///
/// Threads  const: any number at once.
class Chain {
 public:
  /// Errors  Exception kConfig with the place in the job file: an unknown type or key, an impossible value, images
  ///         that do not all come out in one size.
  Chain(const std::vector<Options>& list, const std::string& pointer, const TransformRegistry& registry,
        const ChainInput& input);

  [[nodiscard]] Size output_size() const { return size_; }
  [[nodiscard]] std::int64_t channels() const { return channels_; }
  [[nodiscard]] std::string scaling_in_words() const { return normalizer_->in_words(); }

  /// out  C × H × W floats of output_size()
  void write(const Image& image, Random random, float* out) const;
  void write(const Undecoded& image, Random random, float* out) const;

  /// What is left to be done with the bytes that the functions below write; null where it is more than that.
  [[nodiscard]] const Normalizer* end_of_bytes() const { return erasing_ ? nullptr : &*normalizer_; }

  /// out  C × H × W bytes of output_size(), of which end_of_bytes() makes what the functions above write
  void write(const Image& image, Random random, std::uint8_t* out) const;
  void write(const Undecoded& image, Random random, std::uint8_t* out) const;

 private:
  [[nodiscard]] Image changed(Image image, std::size_t done, Random& random) const;
  [[nodiscard]] Image changed(const Undecoded& image, Random& random) const;
  void finish(const Image& image, Random& random, float* out) const;

  std::vector<std::unique_ptr<Transform>> transforms_;
  std::optional<Normalizer> normalizer_;
  std::optional<ErasingOptions> erasing_;
  float erased_value_ = 0;
  std::int64_t channels_;
  Size size_;
};

}  // namespace ddprun::transforms
