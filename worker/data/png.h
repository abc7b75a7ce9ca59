#pragma once

#include "rendezvous/base/result.h"
#include "worker/transforms/image.h"

#include <cstdint>
#include <span>
#include <string>

namespace ddprun::data {

/// Red, green, blue of a PNG file, as Pillow gives them by `convert("RGB")`: palettes and grey are expanded,
/// transparency is dropped and not blended, of 16 bits the upper 8 count (Pillow cuts 16-bit grey off at 255).
///
/// Errors  kCorrupt, naming `name`: libpng's own words, or more pixels than 2^28.
Result<transforms::Size> read_png_size(std::span<const std::uint8_t> bytes, const std::string& name);
Result<transforms::Image> decode_png(std::span<const std::uint8_t> bytes, const std::string& name);

}  // namespace ddprun::data
