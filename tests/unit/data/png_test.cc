#include "worker/data/png.h"

#include "tests/support/catch.h"
#include "worker/transforms/random.h"

#include <png.h>

#include <string>
#include <vector>

using namespace ddprun;
using transforms::Size;

namespace {

std::vector<std::uint8_t> make_png(Size size, std::uint32_t format, const std::vector<std::uint8_t>& pixels,
                                   const std::vector<std::uint8_t>& colors = {}) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(size.width);
  image.height = static_cast<png_uint_32>(size.height);
  image.format = format;
  image.colormap_entries = static_cast<png_uint_32>(colors.size() / 3);
  std::vector<std::uint8_t> file(100000);
  png_alloc_size_t bytes = file.size();
  REQUIRE(png_image_write_to_memory(&image, file.data(), &bytes, 0, pixels.data(), 0, colors.data()) != 0);
  file.resize(bytes);
  return file;
}

std::vector<int> pixel_of(const transforms::Image& image, std::int64_t y, std::int64_t x) {
  return {*image.at(0, y, x), *image.at(1, y, x), *image.at(2, y, x)};
}

}  // namespace

TEST_CASE("colours, grey, palettes and transparent pixels of a PNG become red, green and blue") {
  const Size size{1, 2};
  const auto color = data::decode_png(make_png(size, PNG_FORMAT_RGB, {1, 2, 3, 4, 5, 6}), "x.png");
  REQUIRE(color.has_value());
  CHECK(pixel_of(*color, 0, 1) == std::vector<int>{4, 5, 6});
  const auto grey = data::decode_png(make_png(size, PNG_FORMAT_GRAY, {7, 9}), "x.png");
  CHECK(pixel_of(*grey, 0, 1) == std::vector<int>{9, 9, 9});
  const auto clear = data::decode_png(make_png(size, PNG_FORMAT_RGBA, {1, 2, 3, 0, 4, 5, 6, 128}), "x.png");
  CHECK(pixel_of(*clear, 0, 0) == std::vector<int>{1, 2, 3});
  const auto palette =
      data::decode_png(make_png(size, PNG_FORMAT_RGB_COLORMAP, {1, 0}, {10, 20, 30, 40, 50, 60}), "x.png");
  CHECK(pixel_of(*palette, 0, 0) == std::vector<int>{40, 50, 60});
}

TEST_CASE("what is no PNG, or was cut off, is refused") {
  const std::vector<std::uint8_t> text(20, 'x');
  CHECK(data::read_png_size(text, "x.png").error().message() ==
        "x.png is no whole PNG image: Not a PNG file");
  auto file = make_png({8, 8}, PNG_FORMAT_RGB, std::vector<std::uint8_t>(192, 5));
  file.resize(file.size() - 20);
  CHECK(*data::read_png_size(file, "x.png") == Size{8, 8});
  CHECK(data::decode_png(file, "x.png").error().message() ==
        "x.png is no whole PNG image: it ends too early");
}

TEST_CASE("a PNG with any byte changed is decoded or refused, and nothing else happens") {
  const auto file = make_png({16, 16}, PNG_FORMAT_RGB, std::vector<std::uint8_t>(768, 99));
  transforms::Random random({.seed = 2});
  for (int i = 0; i < 3000; ++i) {
    auto changed = file;
    changed[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(file.size())))] =
        static_cast<std::uint8_t>(random.bits());
    const auto image = data::decode_png(changed, "x.png");
    if (image) CHECK(image->channels == 3);
  }
}
