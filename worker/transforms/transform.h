#pragma once

#include "worker/transforms/image.h"
#include "worker/transforms/random.h"

#include <memory>
#include <optional>

namespace ddprun::transforms {

/// One change of an image.
///
/// Threads  const: any number at once; what is random comes from the Random of the call.
class Transform {
 public:
  virtual ~Transform();
  Transform() = default;
  Transform(const Transform&) = delete;
  Transform& operator=(const Transform&) = delete;

  /// The size of what comes out for images of `input`; null stands for images of different sizes.
  ///
  /// Errors  Exception kConfig where images of that size are too small.
  [[nodiscard]] virtual std::optional<Size> output_size(std::optional<Size> input) const { return input; }

  [[nodiscard]] virtual Image apply(const Image& image, Random& random) const = 0;

  /// The same for an image that is still to be decoded: one that looks at a part of it decodes that part only.
  [[nodiscard]] virtual Image apply_to(const Undecoded& image, Random& random) const;
};

}  // namespace ddprun::transforms
