#include "worker/data/jpeg.h"

#include "tests/support/catch.h"
#include "worker/transforms/random.h"

#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>
// jpeglib.h uses FILE and size_t without including what declares them.
#include <jpeglib.h>

using namespace ddprun;
using transforms::Image;
using transforms::Size;
using transforms::Window;

namespace {

struct JpegOptions {
  int components = 3;
  int horizontal_sampling = 2;  // of luminance: 2 and 2 is 4:2:0
  int vertical_sampling = 2;
  bool progressive = false;
};

/// A JPEG file of smooth colours with noise.
std::vector<std::uint8_t> make_jpeg(Size size, const JpegOptions& options) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long count = 0;
  jpeg_mem_dest(&info, &bytes, &count);
  info.image_width = static_cast<JDIMENSION>(size.width);
  info.image_height = static_cast<JDIMENSION>(size.height);
  info.input_components = options.components;
  info.in_color_space = options.components == 1   ? JCS_GRAYSCALE
                        : options.components == 4 ? JCS_CMYK
                                                  : JCS_RGB;
  jpeg_set_defaults(&info);
  info.comp_info[0].h_samp_factor = options.components == 3 ? options.horizontal_sampling : 1;
  info.comp_info[0].v_samp_factor = options.components == 3 ? options.vertical_sampling : 1;
  if (options.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  transforms::Random random({.seed = 5});
  std::vector<std::uint8_t> row(static_cast<std::size_t>(size.width * options.components));
  while (info.next_scanline < info.image_height) {
    for (std::size_t i = 0; i < row.size(); ++i)
      row[i] = static_cast<std::uint8_t>((3 * i + 5 * info.next_scanline + random.bits() % 60) & 0xffU);
    JSAMPROW rows = row.data();
    jpeg_write_scanlines(&info, &rows, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::vector<std::uint8_t> file(bytes, bytes + count);
  std::free(bytes);
  return file;
}

/// The same file with a header that says another size.
std::vector<std::uint8_t> with_size(std::vector<std::uint8_t> file, Size size) {
  for (std::size_t i = 0; i + 8 < file.size(); ++i) {
    // FF C0 (C2 of a progressive file), two bytes of length, one of precision, then height and width.
    if (file[i] != 0xff || (file[i + 1] != 0xc0 && file[i + 1] != 0xc2)) continue;
    file[i + 5] = static_cast<std::uint8_t>(size.height >> 8);
    file[i + 6] = static_cast<std::uint8_t>(size.height & 0xff);
    file[i + 7] = static_cast<std::uint8_t>(size.width >> 8);
    file[i + 8] = static_cast<std::uint8_t>(size.width & 0xff);
    return file;
  }
  return {};
}

/// Of memory that this process has had at once.
std::int64_t most_bytes_so_far() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{1024} * usage.ru_maxrss;
}

bool are_equal(const Image& a, const Image& b) {
  if (a.size() != b.size()) return false;
  for (std::int64_t y = 0; y < a.height; ++y) {
    for (std::int64_t x = 0; x < a.width; ++x) {
      for (std::int64_t c = 0; c < 3; ++c) {
        if (*a.at(c, y, x) != *b.at(c, y, x)) return false;
      }
    }
  }
  return true;
}

Window any_window(Size size, transforms::Random& random) {
  const std::int64_t height = 1 + random.below(size.height);
  const std::int64_t width = 1 + random.below(size.width);
  return {random.below(size.height - height + 1), random.below(size.width - width + 1), height, width};
}

void check_windows(const JpegOptions& options) {
  CAPTURE(options.components, options.horizontal_sampling, options.vertical_sampling, options.progressive);
  const Size size{123, 157};
  const auto file = make_jpeg(size, options);
  const auto whole = data::decode_jpeg(file, {0, 0, size.height, size.width}, "whole");
  REQUIRE(whole.has_value());
  transforms::Random random({.seed = 9});
  for (int i = 0; i < 60; ++i) {
    const Window window = any_window(size, random);
    CAPTURE(window.top, window.left, window.height, window.width);
    const auto part = data::decode_jpeg(file, window, "part");
    REQUIRE(part.has_value());
    CHECK(are_equal(*part, transforms::crop(*whole, window)));
  }
}

}  // namespace

TEST_CASE("a window of a JPEG has the bytes that a decode of the whole has there") {
  for (const bool progressive : {false, true}) {
    check_windows({.progressive = progressive});
    check_windows({.vertical_sampling = 1, .progressive = progressive});
    check_windows({.horizontal_sampling = 1, .progressive = progressive});
    check_windows({.horizontal_sampling = 1, .vertical_sampling = 1, .progressive = progressive});
    check_windows({.horizontal_sampling = 4, .vertical_sampling = 1, .progressive = progressive});
    check_windows({.components = 1, .progressive = progressive});
    check_windows({.components = 4, .progressive = progressive});
  }
}

TEST_CASE("the size of a JPEG is read from its header") {
  auto file = make_jpeg({20, 30}, {});
  file.resize(700);
  CHECK(*data::read_jpeg_size(file, "x.jpg") == Size{20, 30});
}

TEST_CASE("what is no JPEG is refused in libjpeg's words") {
  const std::vector<std::uint8_t> text{'h', 'e', 'l', 'l', 'o'};
  CHECK(data::read_jpeg_size(text, "x.jpg").error().message() ==
        "x.jpg is no whole JPEG image: Not a JPEG file: starts with 0x68 0x65");
  CHECK(data::read_jpeg_size({}, "x.jpg").error().message() ==
        "x.jpg is no whole JPEG image: Empty input file");
}

TEST_CASE("a JPEG that was cut off is refused where the cut is reached") {
  auto file = make_jpeg({100, 100}, {});
  file.resize(file.size() / 2);
  CHECK(data::decode_jpeg(file, {0, 0, 100, 100}, "x.jpg").error().message() ==
        "x.jpg is no whole JPEG image: Premature end of JPEG file");
  CHECK(data::decode_jpeg(file, {0, 0, 16, 100}, "x.jpg").has_value());
}

TEST_CASE("a JPEG that ends in its first rows is refused there, and the rest is not filled with grey") {
  const auto file = with_size(make_jpeg({40, 40}, {}), {16384, 16384});
  const std::int64_t before = most_bytes_so_far();
  CHECK(data::decode_jpeg(file, {0, 0, 16384, 16384}, "x.jpg").error().message() ==
        "x.jpg is no whole JPEG image: Corrupt JPEG data: premature end of data segment");
  CHECK(most_bytes_so_far() - before < std::int64_t{400} << 20);  // of 805 million
}

TEST_CASE("a JPEG whose header says more pixels than any image has is refused before one is decoded") {
  const auto file = with_size(make_jpeg({40, 40}, {}), {65500, 65500});
  const std::string words =
      "x.jpg says that it has 65500 × 65500 pixels, more than the 268435456 that are read";
  CHECK(data::read_jpeg_size(file, "x.jpg").error().message() == words);
  CHECK(data::read_jpeg_size(file, "x.jpg").error().code() == ErrorCode::kCorrupt);
  CHECK(data::decode_jpeg(file, {0, 0, 16, 16}, "x.jpg").error().message() == words);
}

TEST_CASE("a progressive JPEG, which is held whole, is refused where that takes more than a gigabyte") {
  const auto file =
      with_size(make_jpeg({40, 40}, {.horizontal_sampling = 1, .vertical_sampling = 1, .progressive = true}),
                {16384, 16384});
  CHECK(data::decode_jpeg(file, {0, 0, 16, 16}, "x.jpg").error().message() ==
        "x.jpg is a progressive JPEG image that takes more than 1073741824 bytes to decode; save it anew, as "
        "a baseline "
        "JPEG or smaller");
}

TEST_CASE("a JPEG with any byte changed is decoded or refused, and nothing else happens") {
  const auto file = make_jpeg({40, 40}, {});
  transforms::Random random({.seed = 2});
  for (int i = 0; i < 3000; ++i) {
    auto changed = file;
    changed[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(file.size())))] =
        static_cast<std::uint8_t>(random.bits());
    const auto size = data::read_jpeg_size(changed, "x.jpg");
    if (!size) continue;
    const auto image = data::decode_jpeg(changed, any_window(*size, random), "x.jpg");
    if (image) CHECK(image->channels == 3);
  }
}
