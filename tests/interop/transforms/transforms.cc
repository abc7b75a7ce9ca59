// Answers the cases of transforms_test.py: each is a line of JSON, {"op", "channels", "height", "width",
// "interleaved", …}, and the image's bytes, C × H × W. For each comes a line "height width" and the bytes of
// the result; for "normalize" its floats, for draws a line of numbers for each.
#include "worker/transforms/affine.h"
#include "worker/transforms/color.h"
#include "worker/transforms/draws.h"
#include "worker/transforms/mix.h"
#include "worker/transforms/normalize.h"
#include "worker/transforms/resize.h"

#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <nlohmann/json.hpp>

#include <iostream>
#include <map>
#include <string>
#include <vector>

namespace ddprun::transforms {
namespace {

using nlohmann::json;

Image resize_short_side(const Image& image, const json& ask) {
  return resize(image, resized_to_short_side(image.size(), ask["size"].get<std::int64_t>()));
}

Image cropped(const Image& image, const json& ask) {
  return crop(image, {ask["top"], ask["left"], ask["to"][0], ask["to"][1]});
}

Image change(const Image& image, const json& ask) {
  const std::string op = ask["op"];
  const auto value = [&] { return ask["value"].get<double>(); };
  if (op == "resize") return resize(image, {ask["to"][0], ask["to"][1]});
  if (op == "resize_short_side") return resize_short_side(image, ask);
  if (op == "center_crop") return crop(image, center_window(image.size(), {ask["to"][0], ask["to"][1]}));
  if (op == "crop") return cropped(image, ask);
  if (op == "resized_crop") return resize(cropped(image, ask), {ask["size"][0], ask["size"][1]});
  if (op == "horizontal_flip") return flip_horizontally(image);
  if (op == "vertical_flip") return flip_vertically(image);
  if (op == "adjust_brightness") return adjust_brightness(image, value());
  if (op == "adjust_contrast") return adjust_contrast(image, value());
  if (op == "adjust_saturation") return adjust_saturation(image, value());
  if (op == "adjust_hue") return adjust_hue(image, value());
  if (op == "rotate") return rotate(image, value());
  for (int kind = 0; kind < Augmentation::kKinds; ++kind) {
    const auto candidate = static_cast<Augmentation::Kind>(kind);
    if (to_string(candidate) == op) return apply(Augmentation{candidate, value()}, image);
  }
  throw std::runtime_error("unknown op " + op);
}

std::string draw(const json& ask, Random& random) {
  const std::string op = ask["op"];
  const Size image{ask["height"], ask["width"]};
  const auto text = [](const Window& w) {
    return std::to_string(w.top) + ' ' + std::to_string(w.left) + ' ' + std::to_string(w.height) + ' ' +
           std::to_string(w.width);
  };
  if (op == "draw_crop") return text(draw_crop(image, {ask["to"][0], ask["to"][1]}, ask["padding"], random));
  if (op == "draw_resized_crop") return text(draw_resized_crop(image, {}, random));
  if (op == "draw_erasing") return text(draw_erasing(image, {}, random).value_or(Window{}));
  if (op == "draw_color_jitter") {
    const Range range{0.6F, 1.4F};
    std::string line;
    for (const ColorChange& c : draw_color_jitter({range, range, range, Range{-0.1F, 0.1F}}, random))
      line += std::to_string(static_cast<int>(c.kind)) + ' ' + std::to_string(c.factor) + ' ';
    return line;
  }
  if (op == "draw_rand_augment") {
    std::string line;
    for (const Augmentation& a : draw_rand_augment(image, {}, random))
      line += std::string(to_string(a.kind)) + ' ' + json(a.magnitude).dump() + ' ';
    return line;
  }
  if (op == "draw_mixup") return std::to_string(draw_mixup(ask["alpha"], random));
  if (op == "draw_cutmix") {
    const Cut cut = draw_cutmix(ask["alpha"], image, random);
    return text(cut.window) + ' ' + json(cut.share).dump();
  }
  throw std::runtime_error("unknown draw " + op);
}

void print_bytes(const Image& image) {
  const at::Tensor planes = to_planar_tensor(image);
  std::cout << image.height << ' ' << image.width << '\n';
  std::cout.write(reinterpret_cast<const char*>(planes.const_data_ptr()), planes.numel());
}

void print_floats(const at::Tensor& values) {
  const at::Tensor plain = values.contiguous();
  std::cout.write(reinterpret_cast<const char*>(plain.const_data_ptr()),
                  plain.numel() * static_cast<std::int64_t>(sizeof(float)));
}

void print_normalized(const Image& image, const json& ask) {
  const Normalization wanted{ask["mean"], ask["std"],
                             ask["scaling"] == "divide" ? Scaling::kDivide : Scaling::kMultiply};
  std::vector<float> out(static_cast<std::size_t>(image.channels * image.height * image.width));
  Normalizer(wanted, image.channels).write(image, out.data());
  std::cout.write(reinterpret_cast<const char*>(out.data()),
                  static_cast<std::streamsize>(out.size() * sizeof(float)));
}

/// A batch of images that are the case's image, moved down by one row each.
void print_mixed(const Image& image, const json& ask) {
  const at::Tensor one = to_planar_tensor(image).to(at::kFloat);
  const at::Tensor batch = at::stack({one, one.roll(1, 1), one.roll(2, 1)});
  const at::Tensor labels = at::tensor({0, 2, 1}, at::kLong);
  if (ask["op"] == "mixup") {
    print_floats(mixup(batch, ask["share"]));
  } else {
    const json& w = ask["window"];
    print_floats(cutmix(batch, {{w[0], w[1], w[2], w[3]}, ask["share"]}));
  }
  print_floats(mix_labels(labels, 4, ask["share"]));
}

void answer(const json& ask, const std::vector<std::uint8_t>& planes) {
  const std::string op = ask["op"];
  if (op.starts_with("draw_")) {
    for (std::int64_t i = 0; i < ask["times"]; ++i) {
      Random random({.seed = ask["seed"], .epoch = i % 7, .index = i / 7});
      std::cout << draw(ask, random) << '\n';
    }
    return;
  }
  Image image = planar_view(planes.data(), ask["channels"], {ask["height"], ask["width"]});
  const at::Tensor interleaved = to_tensor(image).permute({1, 2, 0}).contiguous().permute({2, 0, 1});
  if (ask["interleaved"]) image = from_tensor(interleaved);
  if (op == "normalize") return print_normalized(image, ask);
  if (op == "mixup" || op == "cutmix") return print_mixed(image, ask);
  print_bytes(change(image, ask));
}

}  // namespace
}  // namespace ddprun::transforms

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto ask = nlohmann::json::parse(line);
    std::vector<std::uint8_t> planes;
    if (ask.contains("channels")) {
      planes.resize(ask["channels"].get<std::size_t>() * ask["height"].get<std::size_t>() *
                    ask["width"].get<std::size_t>());
      std::cin.read(reinterpret_cast<char*>(planes.data()), static_cast<std::streamsize>(planes.size()));
    }
    ddprun::transforms::answer(ask, planes);
  }
}
