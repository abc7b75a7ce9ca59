#include "worker/transforms/draws.h"

#include "tests/support/catch.h"
#include "worker/transforms/mix.h"

using namespace ddprun::transforms;

namespace {

Random random_of(std::int64_t index) { return Random({.seed = 3, .epoch = 0, .index = index}); }

bool lies_within(const Window& window, Size image) {
  return window.top >= 0 && window.left >= 0 && window.height > 0 && window.width > 0 &&
         window.top + window.height <= image.height && window.left + window.width <= image.width;
}

}  // namespace

TEST_CASE("resized crops lie within images of all shapes") {
  for (std::int64_t i = 0; i < 2000; ++i) {
    Random random = random_of(i);
    const Size image{1 + random.below(50), 1 + random.below(50)};
    CHECK(lies_within(draw_resized_crop(image, {}, random), image));
  }
}

TEST_CASE("an image too narrow for the ratio gives its middle, cut to the ratio") {
  Random random = random_of(0);
  CHECK(draw_resized_crop({100, 2}, {.area = {1, 1}}, random) == Window{48, 0, 3, 2});
  CHECK(draw_resized_crop({3, 100}, {.area = {1, 1}}, random) == Window{0, 48, 3, 4});
}

TEST_CASE("an image too thin for even one pixel at the ratio gives a pixel of its middle") {
  Random random = random_of(0);
  CHECK(draw_resized_crop({300, 1}, {.ratio = {3, 4}}, random) == Window{149, 0, 1, 1});
  CHECK(draw_resized_crop({1, 300}, {.ratio = {0.25F, 0.3F}}, random) == Window{0, 149, 1, 1});
}

TEST_CASE("a crop with padding reaches every place") {
  bool reaches_start = false;
  bool reaches_end = false;
  for (std::int64_t i = 0; i < 2000; ++i) {
    Random random = random_of(i);
    const Window window = draw_crop({32, 32}, {32, 32}, 4, random);
    CHECK((window.top >= -4 && window.top <= 4 && window.left >= -4 && window.left <= 4));
    reaches_start = reaches_start || (window.top == -4 && window.left == -4);
    reaches_end = reaches_end || (window.top == 4 && window.left == 4);
  }
  CHECK(reaches_start);
  CHECK(reaches_end);
}

TEST_CASE("a jitter without ranges changes nothing") {
  Random random = random_of(0);
  CHECK(draw_color_jitter({}, random).empty());
}

TEST_CASE("what is erased is smaller than the image") {
  for (std::int64_t i = 0; i < 500; ++i) {
    Random random = random_of(i);
    const auto window = draw_erasing({20, 30}, {.probability = 1}, random);
    if (window) CHECK((lies_within(*window, {20, 30}) && window->height < 20 && window->width < 30));
  }
}

TEST_CASE("nothing is erased at probability 0") {
  Random random = random_of(0);
  CHECK(!draw_erasing({20, 30}, {.probability = 0}, random));
}

TEST_CASE("the share of a cut is what is left of the picture") {
  for (std::int64_t i = 0; i < 500; ++i) {
    Random random = random_of(i);
    const Cut cut = draw_cutmix(1.0, {10, 10}, random);
    CHECK(cut.share == 1.0 - static_cast<double>(cut.window.height * cut.window.width) / 100);
    CHECK((cut.window.height >= 0 && cut.window.width >= 0));
  }
}
