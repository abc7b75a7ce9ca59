#include "worker/data/image_source.h"

#include <ddprun/exception.h>

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <cstddef>
#include <utility>

namespace ddprun::data {
namespace {

using transforms::Chain;
using transforms::ChainInput;
using transforms::Size;

ChainInput input_of(const Images& images) {
  return {.channels = images.channels,
          .size = Size{images.height, images.width},
          .normalization = {.mean = images.mean, .deviation = images.deviation}};
}

transforms::TransformRegistry all_transforms() {
  transforms::TransformRegistry registry("transform");
  transforms::register_transforms(registry);
  return registry;
}

}  // namespace

ImageSource::ImageSource(Images images)
    : images_(std::move(images)),
      chain_({}, "", all_transforms(), input_of(images_)),
      shape_(image_shape(chain_, images_.classes, images_.class_names)) {}

ImageSource::ImageSource(Images images, Chain chain)
    : images_(std::move(images)),
      chain_(std::move(chain)),
      shape_(image_shape(chain_, images_.classes, images_.class_names)) {}

Batch ImageSource::make_batch(const BatchRequest& request) const { return make<float>(request); }

Batch ImageSource::make_byte_batch(const BatchRequest& request) const { return make<std::uint8_t>(request); }

template <class Element>
Batch ImageSource::make(const BatchRequest& request) const {
  const ImageBatch<Element> batch(request, chain_);
  const auto image_size = static_cast<std::size_t>(images_.image_size());
  for (std::size_t i = 0; i < request.indices.size(); ++i) {
    const auto index = static_cast<std::size_t>(request.indices[i]);
    const transforms::Image image = transforms::planar_view(
        images_.pixels.data() + index * image_size, images_.channels, {images_.height, images_.width});
    const transforms::Random random(
        {.seed = request.seed, .epoch = request.epoch, .index = request.indices[i]});
    chain_.write(image, random, batch.image(i));
    batch.label(i) = images_.labels[index];
  }
  return batch.take();
}

DataSplits to_sources(ImageSplits splits, const Options& options) {
  Chains chains = read_chains(options, input_of(splits.train), input_of(splits.held_out));
  return {std::make_shared<ImageSource>(std::move(splits.train), std::move(chains.train)),
          std::make_shared<ImageSource>(std::move(splits.held_out), std::move(chains.held_out))};
}

Chains read_chains(const Options& options, const ChainInput& train, const ChainInput& held_out) {
  const transforms::TransformRegistry registry = all_transforms();
  const auto read = [&](const char* key, const ChainInput& input) {
    return Chain(options.objects(key), options.pointer() + "/" + key, registry, input);
  };
  Chains chains{read("transforms", train), read("test_transforms", held_out)};
  const Size trained = chains.train.output_size();
  const Size tested = chains.held_out.output_size();
  if (trained == tested) return chains;
  throw Exception(ErrorCode::kConfig,
                  fmt::format("{0}/test_transforms: its images end with {1} × {2} pixels, those of "
                              "{0}/transforms with {3} × {4}; a model takes one size",
                              options.pointer(), tested.height, tested.width, trained.height, trained.width));
}

DataShape image_shape(const Chain& chain, std::int64_t classes, std::vector<std::string> class_names) {
  DataShape shape;
  const Size size = chain.output_size();
  shape.tensors = {{"image", {chain.channels(), size.height, size.width}, at::kFloat},
                   {"label", {}, at::kLong}};
  shape.classes = classes;
  shape.class_names = std::move(class_names);
  shape.scaling = chain.scaling_in_words();
  shape.unit = "images";
  return shape;
}

template <class Element>
ImageBatch<Element>::ImageBatch(const BatchRequest& request, const Chain& chain) {
  const auto count = static_cast<std::int64_t>(request.indices.size());
  const auto options = at::TensorOptions().pinned_memory(request.pinned);
  const Size size = chain.output_size();
  images = at::empty({count, chain.channels(), size.height, size.width},
                     options.dtype(c10::CppTypeToScalarType<Element>::value));
  labels = at::empty({count}, options.dtype(at::kLong));
}

template <class Element>
Element* ImageBatch<Element>::image(std::size_t i) const {
  return images.template mutable_data_ptr<Element>() + static_cast<std::int64_t>(i) * images.stride(0);
}

template <class Element>
std::int64_t& ImageBatch<Element>::label(std::size_t i) const {
  return labels.mutable_data_ptr<std::int64_t>()[i];
}

template struct ImageBatch<float>;
template struct ImageBatch<std::uint8_t>;

}  // namespace ddprun::data
