#include "worker/data/jpeg.h"

#include "worker/data/bounded_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
// jpeglib.h uses FILE and size_t without including what declares them.
#include <jpeglib.h>
// jerror.h needs jpeglib.h.
#include <jerror.h>

namespace ddprun::data {
namespace {

using transforms::Image;
using transforms::Size;
using transforms::Window;

/// Upsampled colours at the edges of a cropped row depend on what was cut off: so many pixels more are decoded
/// on both sides and dropped.
constexpr std::int64_t kMargin = 16;

/// That libjpeg may take: a progressive file's image is held whole, two bytes a coefficient.
constexpr long kMostBytes = 1L << 30;

/// libjpeg's end of a failed call: it jumps, so nothing with a destructor may live between `setjmp` and its calls.
struct Failure {
  jpeg_error_mgr manager{};  // first: libjpeg knows only its address
  std::jmp_buf back{};
  std::array<char, JMSG_LENGTH_MAX> words{};
};

Failure& failure_of(j_common_ptr info) { return *reinterpret_cast<Failure*>(info->err); }

[[noreturn]] void leave(j_common_ptr info) {
  Failure& failure = failure_of(info);
  failure.manager.format_message(info, failure.words.data());
  std::longjmp(failure.back, 1);
}

/// libjpeg goes on with grey where data is missing, for as many rows as the header says; that is no image.
void heed_warning(j_common_ptr info, int level) {
  if (level >= 0) return;
  const int code = failure_of(info).manager.msg_code;
  if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE) leave(info);
}

/// One decompression, ended with the scope.
struct Decompression {
  Decompression() {
    info.err = jpeg_std_error(&failure.manager);
    failure.manager.error_exit = leave;
    failure.manager.emit_message = heed_warning;
  }
  ~Decompression() { jpeg_destroy_decompress(&info); }
  Decompression(const Decompression&) = delete;
  Decompression& operator=(const Decompression&) = delete;
  jpeg_decompress_struct info{};
  Failure failure;
};

bool read_header(Decompression& it, std::span<const std::uint8_t> bytes) {
  if (setjmp(it.failure.back) != 0) return false;
  jpeg_create_decompress(&it.info);
  it.info.mem->max_memory_to_use = kMostBytes;
  jpeg_mem_src(&it.info, bytes.data(), bytes.size());
  jpeg_read_header(&it.info, TRUE);
  return true;
}

/// Decodes the window's rows one after another, by way of `row`, which has room for a whole one, into `out`.
bool read_rows(Decompression& it, const Window& window, std::uint8_t* row, std::uint8_t* out) {
  if (setjmp(it.failure.back) != 0) return false;
  jpeg_decompress_struct& info = it.info;
  info.out_color_space = info.num_components == 4 ? JCS_CMYK : JCS_RGB;
  jpeg_start_decompress(&info);
  const std::int64_t from = std::max<std::int64_t>(window.left - kMargin, 0);
  const std::int64_t to = std::min<std::int64_t>(window.left + window.width + kMargin, info.output_width);
  auto first = static_cast<JDIMENSION>(from);
  auto width = static_cast<JDIMENSION>(to - from);
  if (width < info.output_width) jpeg_crop_scanline(&info, &first, &width);
  if (window.top > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(window.top));
  const int channels = info.out_color_components;
  const auto bytes = static_cast<std::size_t>(window.width * channels);
  for (std::int64_t y = 0; y < window.height; ++y) {
    while (jpeg_read_scanlines(&info, &row, 1) == 0) {
    }
    std::memcpy(out + static_cast<std::size_t>(y) * bytes,
                row + (window.left - static_cast<std::int64_t>(first)) * channels, bytes);
  }
  jpeg_abort_decompress(&info);
  return true;
}

Error damaged(const Failure& failure, const std::string& name) {
  // Beyond max_memory_to_use it asks for a file to put the rest in.
  if (failure.manager.msg_code == JERR_NO_BACKING_STORE) {
    return {ErrorCode::kCorrupt,
            fmt::format(
                "{} is a progressive JPEG image that takes more than {} bytes to decode; save it anew, as a "
                "baseline JPEG or smaller",
                name, kMostBytes)};
  }
  return {ErrorCode::kCorrupt, fmt::format("{} is no whole JPEG image: {}", name, failure.words.data())};
}

int divided_by_255(int value) {
  const int sum = value + 128;
  return ((sum >> 8) + sum) >> 8;
}

/// Of Adobe's inverted CMYK: (255 - K) less its share of each ink, as Pillow rounds it.
void to_rgb(const std::uint8_t* cmyk, std::size_t pixels, std::uint8_t* rgb) {
  for (std::size_t i = 0; i < pixels; ++i, cmyk += 4) {
    const int light = cmyk[3];
    for (int c = 0; c < 3; ++c) {
      const int ink = divided_by_255((255 - cmyk[c]) * light);
      *rgb++ = static_cast<std::uint8_t>(std::clamp(light - ink, 0, 255));
    }
  }
}

}  // namespace

Result<Size> read_jpeg_size(std::span<const std::uint8_t> bytes, const std::string& name) {
  Decompression it;
  if (!read_header(it, bytes)) return damaged(it.failure, name);
  return bounded_size({it.info.image_height, it.info.image_width}, name);
}

Result<Image> decode_jpeg(std::span<const std::uint8_t> bytes, const Window& window,
                          const std::string& name) {
  Decompression it;
  if (!read_header(it, bytes)) return damaged(it.failure, name);
  const Result<Size> size = bounded_size({it.info.image_height, it.info.image_width}, name);
  if (!size) return size.error();
  const auto pixels = static_cast<std::size_t>(window.height * window.width);
  const std::size_t channels = it.info.num_components == 4 ? 4 : 3;
  const std::unique_ptr<std::uint8_t[]> row(new std::uint8_t[std::size_t{it.info.image_width} * channels]);
  std::shared_ptr<std::uint8_t[]> out(new std::uint8_t[pixels * channels]);
  if (!read_rows(it, window, row.get(), out.get())) return damaged(it.failure, name);
  if (channels == 4) {
    std::shared_ptr<std::uint8_t[]> rgb(new std::uint8_t[pixels * 3]);
    to_rgb(out.get(), pixels, rgb.get());
    out = std::move(rgb);
  }
  return transforms::interleaved_view(out.get(), 3, window.size(), out);
}

}  // namespace ddprun::data
