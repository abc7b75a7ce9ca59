#include "worker/data/png.h"

#include "worker/data/bounded_size.h"

#include <fmt/format.h>
#include <png.h>

#include <csetjmp>
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

namespace ddprun::data {
namespace {

using transforms::Image;
using transforms::Size;

/// What libpng reads from, and what it said at the end.
struct Source {
  std::span<const std::uint8_t> rest;
  std::string words;
};

[[noreturn]] void leave(png_structp png, png_const_charp words) {
  static_cast<Source*>(png_get_error_ptr(png))->words = words;
  png_longjmp(png, 1);
}

void ignore(png_structp, png_const_charp) {}

void take(png_structp png, png_bytep to, std::size_t count) {
  auto& source = *static_cast<Source*>(png_get_io_ptr(png));
  if (count > source.rest.size()) png_error(png, "it ends too early");
  std::memcpy(to, source.rest.data(), count);
  source.rest = source.rest.subspan(count);
}

/// libpng's state, ended with the scope.
struct Reading {
  explicit Reading(std::span<const std::uint8_t> bytes) : source{bytes, "out of memory"} {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, leave, ignore);
    if (png != nullptr) info = png_create_info_struct(png);
  }
  ~Reading() { png_destroy_read_struct(&png, &info, nullptr); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  Source source;
  png_structp png = nullptr;
  png_infop info = nullptr;
};

// libpng jumps out of a failed call, so nothing with a destructor may live between `setjmp` and its calls.

bool read_header(Reading& it) {
  if (it.info == nullptr || setjmp(png_jmpbuf(it.png)) != 0) return false;
  png_set_read_fn(it.png, &it.source, take);
  png_read_info(it.png, it.info);
  return true;
}

bool read_pixels(Reading& it, png_bytepp rows) {
  if (setjmp(png_jmpbuf(it.png)) != 0) return false;
  png_read_image(it.png, rows);
  png_read_end(it.png, nullptr);
  return true;
}

/// Asks for 8-bit red, green and blue, whatever the file has.
bool prepare(Reading& it) {
  if (setjmp(png_jmpbuf(it.png)) != 0) return false;
  png_set_expand(it.png);
  png_set_strip_16(it.png);
  png_set_strip_alpha(it.png);
  png_set_gray_to_rgb(it.png);
  png_set_interlace_handling(it.png);
  png_read_update_info(it.png, it.info);
  return true;
}

Error damaged(const Reading& it, const std::string& name) {
  return {ErrorCode::kCorrupt, fmt::format("{} is no whole PNG image: {}", name, it.source.words)};
}

Result<Size> size_of(const Reading& it, const std::string& name) {
  const Size size{png_get_image_height(it.png, it.info), png_get_image_width(it.png, it.info)};
  return bounded_size(size, name);
}

}  // namespace

Result<Size> read_png_size(std::span<const std::uint8_t> bytes, const std::string& name) {
  Reading it(bytes);
  if (!read_header(it)) return damaged(it, name);
  return size_of(it, name);
}

Result<Image> decode_png(std::span<const std::uint8_t> bytes, const std::string& name) {
  Reading it(bytes);
  if (!read_header(it)) return damaged(it, name);
  const Result<Size> size = size_of(it, name);
  if (!size) return size.error();
  if (!prepare(it)) return damaged(it, name);
  const std::size_t row_bytes = png_get_rowbytes(it.png, it.info);
  std::shared_ptr<std::uint8_t[]> out(new std::uint8_t[row_bytes * static_cast<std::size_t>(size->height)]);
  std::vector<png_bytep> rows;
  for (std::int64_t y = 0; y < size->height; ++y)
    rows.push_back(out.get() + static_cast<std::size_t>(y) * row_bytes);
  if (!read_pixels(it, rows.data())) return damaged(it, name);
  return transforms::interleaved_view(out.get(), 3, *size, out);
}

}  // namespace ddprun::data
