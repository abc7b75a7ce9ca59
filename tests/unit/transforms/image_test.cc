#include "worker/transforms/image.h"

#include "tests/support/catch.h"
#include "worker/transforms/normalize.h"
#include "worker/transforms/resize.h"

#include <vector>

using namespace ddprun::transforms;

namespace {

// Channel c, row y, column x has the value 100 c + 10 y + x.
struct Numbered {
  Numbered(std::int64_t channels, Size size, bool interleaved) {
    for (std::int64_t i = 0; i < channels * size.height * size.width; ++i) {
      const std::int64_t c = interleaved ? i % channels : i / (size.height * size.width);
      const std::int64_t place = interleaved ? i / channels : i % (size.height * size.width);
      bytes.push_back(static_cast<std::uint8_t>(100 * c + 10 * (place / size.width) + place % size.width));
    }
    image = interleaved ? interleaved_view(bytes.data(), channels, size)
                        : planar_view(bytes.data(), channels, size);
  }
  std::vector<std::uint8_t> bytes;
  Image image;
};

std::vector<int> values(const Image& image, std::int64_t channel) {
  std::vector<int> list;
  for (std::int64_t y = 0; y < image.height; ++y) {
    for (std::int64_t x = 0; x < image.width; ++x) list.push_back(*image.at(channel, y, x));
  }
  return list;
}

}  // namespace

TEST_CASE("a crop within the image is a view, planar and interleaved") {
  for (const bool interleaved : {false, true}) {
    const Numbered numbered(2, {3, 4}, interleaved);
    const Image window = crop(numbered.image, {1, 2, 2, 2});
    CHECK(values(window, 0) == std::vector<int>{12, 13, 22, 23});
    CHECK(values(window, 1) == std::vector<int>{112, 113, 122, 123});
    CHECK(window.owner == nullptr);
  }
}

TEST_CASE("a crop beyond the image is black outside of it") {
  for (const bool interleaved : {false, true}) {
    const Numbered numbered(1, {2, 2}, interleaved);
    CHECK(values(crop(numbered.image, {-1, 1, 2, 2}), 0) == std::vector<int>{0, 0, 1, 0});
    CHECK(values(crop(numbered.image, {5, 5, 1, 2}), 0) == std::vector<int>{0, 0});
  }
}

TEST_CASE("flips of a crop of a flip read what they should") {
  const Numbered numbered(1, {2, 3}, true);
  const Image flipped = flip_horizontally(numbered.image);
  CHECK(values(flipped, 0) == std::vector<int>{2, 1, 0, 12, 11, 10});
  CHECK(values(flip_vertically(flipped), 0) == std::vector<int>{12, 11, 10, 2, 1, 0});
  CHECK(values(flip_horizontally(crop(flipped, {0, 0, 1, 2})), 0) == std::vector<int>{1, 2});
}

TEST_CASE("a flipped image as a tensor is a copy of the same picture") {
  const Numbered numbered(3, {2, 3}, true);
  const Image flipped = flip_horizontally(numbered.image);
  CHECK(values(from_tensor(to_tensor(flipped)), 2) == values(flipped, 2));
}

TEST_CASE("a view of a tensor keeps it alive") {
  const Numbered numbered(1, {2, 2}, false);
  Image copy;
  { copy = from_tensor(to_tensor(numbered.image).clone()); }
  CHECK(values(copy, 0) == std::vector<int>{0, 1, 10, 11});
}

TEST_CASE("the short side is resized and the long one rounded down") {
  CHECK(resized_to_short_side({375, 500}, 256) == Size{256, 341});
  CHECK(resized_to_short_side({500, 375}, 256) == Size{341, 256});
}

TEST_CASE("normalisation writes planes of floats") {
  const Numbered numbered(2, {1, 2}, true);
  std::vector<float> out(4);
  Normalizer({.mean = {0.5F, 0.0F}, .deviation = {0.25F}}, 2).write(numbered.image, out.data());
  CHECK(out == std::vector<float>{(0 / 255.0F - 0.5F) / 0.25F, (1 / 255.0F - 0.5F) / 0.25F,
                                  (100 / 255.0F) / 0.25F, (101 / 255.0F) / 0.25F});
}
