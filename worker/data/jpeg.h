#pragma once

#include "rendezvous/base/result.h"
#include "worker/transforms/image.h"

#include <cstdint>
#include <span>
#include <string>

namespace ddprun::data {

/// JPEG files by libjpeg-turbo: red, green, blue as Pillow gives them by `convert("RGB")`, where grey becomes
/// three equal channels and CMYK is taken for Adobe's, inverted. What EXIF says of turning is ignored.
///
/// Errors  kCorrupt, naming `name`: libjpeg's own words; more pixels than are read (bounded_size.h); a progressive
///         file that takes more than a gigabyte to decode.

/// From the header alone.
Result<transforms::Size> read_jpeg_size(std::span<const std::uint8_t> bytes, const std::string& name);

/// The window of the image, which lies within it: the bytes that a decode of the whole would have there. Rows
/// below it are never read, and those above and the columns beside it are only parsed, so that a file that
/// is damaged elsewhere is not noticed.
Result<transforms::Image> decode_jpeg(std::span<const std::uint8_t> bytes, const transforms::Window& window,
                                      const std::string& name);

}  // namespace ddprun::data
