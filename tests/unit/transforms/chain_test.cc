#include "worker/transforms/chain.h"

#include "tests/support/catch.h"
#include <ddprun/exception.h>

#include <algorithm>
#include <vector>

using namespace ddprun;
using namespace ddprun::transforms;

namespace {

Chain make_chain(const std::string& list, const ChainInput& input = {.size = Size{32, 32}}) {
  TransformRegistry registry("transform");
  register_transforms(registry);
  const Options data(R"({"transforms": )" + list + "}", "/data");
  return Chain(data.objects("transforms"), "/data/transforms", registry, input);
}

std::string refusal(const std::string& list, const ChainInput& input = {.size = Size{32, 32}}) {
  try {
    make_chain(list, input);
  } catch (const Exception& error) {
    return error.what();
  }
  return "accepted";
}

std::vector<float> written(const Chain& chain, const Image& image, const RandomKey& key = {}) {
  const Size size = chain.output_size();
  std::vector<float> out(static_cast<std::size_t>(chain.channels() * size.height * size.width), -1);
  chain.write(image, Random(key), out.data());
  return out;
}

const std::vector<std::uint8_t> kWhite(3072, 255);
const Image kWhiteImage = planar_view(kWhite.data(), 3, {32, 32});

}  // namespace

TEST_CASE("a resize that would make more pixels than any image has is refused with both sizes") {
  const Chain chain = make_chain(R"([{"type": "resize", "size": 232}, {"type": "center_crop", "size": 224}])",
                                 {.size = std::nullopt});
  const std::vector<std::uint8_t> line(3 * 65500);
  CHECK_THROWS_WITH(
      written(chain, planar_view(line.data(), 3, {1, 65500})),
      "/data/transforms/0: an image of 1 × 65500 pixels would have 232 × 15196000 with a short side of "
      "232, more than the 268435456 that an image can have; leave it out, or give height and width");
}

TEST_CASE("an empty chain converts and normalises with the data's values") {
  const Chain chain =
      make_chain("[]", {.size = Size{32, 32}, .normalization = {.mean = {0.5F}, .deviation = {0.25F}}});
  CHECK(written(chain, kWhiteImage) == std::vector<float>(3072, 2.0F));
}

TEST_CASE("a chain ends in the size of its last crop or resize") {
  CHECK(make_chain(R"([{"type": "random_crop", "size": 28, "padding": 4},
                       {"type": "resize", "height": 40, "width": 48}])")
            .output_size() == Size{40, 48});
  CHECK(make_chain(R"([{"type": "resize", "size": 48}, {"type": "horizontal_flip"}])").output_size() ==
        Size{48, 48});
  CHECK(
      make_chain(R"([{"type": "random_resized_crop", "size": 224}])", {.size = std::nullopt}).output_size() ==
      Size{224, 224});
}

TEST_CASE("all transforms of a chain draw from the sample's key alone") {
  const Chain chain = make_chain(R"([{"type": "random_resized_crop", "size": 16}, {"type": "horizontal_flip"},
      {"type": "vertical_flip", "p": 0.3}, {"type": "color_jitter", "brightness": 0.4, "hue": 0.1},
      {"type": "rand_augment"}, {"type": "random_erasing", "p": 1}])");
  std::vector<std::uint8_t> pixels(3072);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 37 % 251);
  const Image image = planar_view(pixels.data(), 3, {32, 32});
  const RandomKey key{.seed = 1, .epoch = 2, .index = 3};
  CHECK(written(chain, image, key) == written(chain, image, key));
  CHECK(written(chain, image, key) != written(chain, image, {.seed = 1, .epoch = 3, .index = 3}));
}

TEST_CASE("erasing writes its value over normalised ones") {
  const Chain chain = make_chain(R"([{"type": "random_erasing", "p": 1, "value": 7}])");
  const std::vector<float> out = written(chain, kWhiteImage);
  const auto erased = std::count(out.begin(), out.end(), 7.0F);
  CHECK(erased > 0);
  CHECK(erased % 3 == 0);
  CHECK(erased + std::count(out.begin(), out.end(), 1.0F) == 3072);
}

TEST_CASE("an undecoded image is decoded where the first crop looks, and gives the same floats") {
  std::vector<std::uint8_t> pixels(3072);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 37 % 251);
  const Image image = planar_view(pixels.data(), 3, {32, 32});
  const Chain chain = make_chain(R"([{"type": "random_resized_crop", "size": 16, "scale": [0.1, 0.3]}])");
  std::vector<float> out(3 * 16 * 16);
  std::int64_t decoded = 0;
  chain.write(Undecoded{{32, 32},
                        [&](const Window& window) {
                          decoded = window.height * window.width;
                          return crop(image, window);
                        }},
              Random({.index = 4}), out.data());
  CHECK(decoded < 400);
  CHECK(out == written(chain, image, {.index = 4}));
}

TEST_CASE("refusals of a list of transforms name the place") {
  CHECK(refusal(R"([{"type": "blur"}])") ==
        "/data/transforms/0/type: no transform blur; there are center_crop, color_jitter, horizontal_flip, "
        "rand_augment, random_crop, random_resized_crop, resize, vertical_flip");
  CHECK(refusal(R"([{"size": 3}])") == "/data/transforms/0/type: missing");
  CHECK(refusal(R"([{"type": "resize"}])") ==
        "/data/transforms/0: expected either \"size\", or \"height\" and \"width\", in pixels");
  CHECK(refusal(R"([{"type": "resize", "size": 0}])") ==
        "/data/transforms/0/size: expected pixels in 1 … 16384, got 0");
  CHECK(refusal(R"([{"type": "center_crop", "size": 8}, {"type": "horizontal_flip", "p": 1.5}])") ==
        "/data/transforms/1/p: expected a probability in 0 … 1, got 1.5");
  CHECK(refusal(R"([{"type": "random_crop", "size": 32, "paddin": 4}])") ==
        "/data/transforms/0/paddin: unknown key of \"random_crop\"; remove it");
  CHECK(refusal(R"([{"type": "random_crop", "size": 64, "padding": 4}])") ==
        "/data/transforms/0: a crop of 64 × 64 does not fit into an image of 32 × 32 with a padding of 4; "
        "crop less, pad more, or resize before");
  CHECK(refusal(R"([{"type": "random_resized_crop", "size": 8, "scale": [0.5, 0.2]}])") ==
        "/data/transforms/0/scale: expected [from, to] with 0 ≤ from ≤ to ≤ 1, got [0.5, 0.2]");
  CHECK(refusal(R"([{"type": "color_jitter", "hue": 0.7}])") ==
        "/data/transforms/0/hue: expected number in 0 … 0.5, got 0.7");
  CHECK(refusal(R"([{"type": "rand_augment", "magnitude": 31}])") ==
        "/data/transforms/0/magnitude: expected integer in 0 … 30, got 31");
}

TEST_CASE("refusals of the end of a list say what is wrong with it") {
  CHECK(refusal(R"([{"type": "resize", "size": 64}])", {.size = std::nullopt}) ==
        "/data/transforms: images of different sizes cannot be a batch; add center_crop, random_crop, "
        "random_resized_crop, or resize with height and width");
  CHECK(refusal(R"([{"type": "random_erasing"}, {"type": "horizontal_flip"}])") ==
        "/data/transforms/1: \"horizontal_flip\" comes after \"random_erasing\", which ends the changes of "
        "bytes; move it up");
  CHECK(refusal(R"([{"type": "normalize", "mean": [0, 0], "std": [1]}])") ==
        "/data/transforms/0/mean: expected 1 number, or 3 for 3 channels, got 2");
  CHECK(refusal(R"([{"type": "normalize", "mean": [0], "std": [0]}])") ==
        "/data/transforms/0/std: expected numbers above 0, got 0");
  CHECK(refusal(R"([{"type": "normalize", "mean": [0], "std": [1], "scaling": "v2"}])") ==
        "/data/transforms/0/scaling: expected \"divide\" or \"multiply\", got \"v2\"");
}
