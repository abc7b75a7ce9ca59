#include "worker/commands/predict_inputs.h"

#include "worker/data/image_folder.h"
#include "worker/data/image_source.h"
#include "worker/data/npy.h"
#include "worker/data/read_file.h"
#include "worker/data/table.h"
#include "worker/runtime/throw_error.h"
#include <ddprun/exception.h>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <utility>

namespace ddprun::commands {
namespace {

constexpr std::size_t kFileLimit = std::size_t{1} << 30;

/// Grey by ITU-R 601 in Pillow's whole numbers, as its convert("L").
transforms::Image to_grey(const transforms::Image& image) {
  const at::Tensor color = transforms::to_planar_tensor(image).to(at::kInt);
  const at::Tensor grey =
      (color[0] * 19595 + color[1] * 38470 + color[2] * 7471 + 0x8000).bitwise_right_shift(16);
  return transforms::from_tensor(grey.to(at::kByte).unsqueeze(0).contiguous());
}

at::Tensor through(const transforms::Chain& chain, const transforms::Image& image) {
  const transforms::Size size = chain.output_size();
  at::Tensor sample = at::empty({1, chain.channels(), size.height, size.width});
  chain.write(image, transforms::Random({}), sample.mutable_data_ptr<float>());
  return sample;
}

transforms::Image decode_whole(const std::vector<std::uint8_t>& bytes, const std::string& path) {
  const transforms::Undecoded image = data::open_image(bytes, path);
  return image.decode({0, 0, image.size.height, image.size.width});
}

at::Tensor read_image(const data::ImageFolderSource& source, const std::string& path) {
  const auto bytes = runtime::value_or_throw(data::read_file(path, kFileLimit));
  return through(source.chain(), decode_whole(bytes, path));
}

at::Tensor read_image(const data::ImageSource& source, const std::string& path) {
  const auto bytes = runtime::value_or_throw(data::read_file(path, kFileLimit));
  const transforms::Image image = decode_whole(bytes, path);
  const transforms::Size wanted = source.image_size();
  if (image.size() != wanted) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("{} has {} × {} pixels, and the job's images have {} × {}; resize it", path,
                                image.height, image.width, wanted.height, wanted.width));
  }
  return through(source.chain(), source.channels() == 1 ? to_grey(image) : image);
}

Inputs rows(const std::string& path, const at::Tensor& numbers, const TensorShape& wanted) {
  at::Tensor samples = numbers.to(at::kFloat);
  if (samples.dim() == 1) samples = samples.unsqueeze(1);
  if (samples.size(0) == 0) throw Exception(ErrorCode::kCorrupt, path + " has no rows");
  if (samples.sizes().slice(1) != at::IntArrayRef(wanted.sizes)) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("{} has samples of [{}], and the job's are [{}]", path,
                                fmt::join(samples.sizes().slice(1), ", "), fmt::join(wanted.sizes, ", ")));
  }
  const at::Tensor bad = at::isfinite(samples).logical_not().reshape({samples.size(0), -1}).any(1).nonzero();
  if (bad.size(0) > 0) {
    throw Exception(ErrorCode::kCorrupt,
                    fmt::format("{}: row {} holds a number that is not finite in float32", path,
                                bad[0][0].item<std::int64_t>() + 1));
  }
  Inputs inputs{{}, samples};
  for (std::int64_t row = 1; row <= samples.size(0); ++row)
    inputs.names.push_back(fmt::format("{}:{}", path, row));
  return inputs;
}

}  // namespace

Inputs read_inputs(const OpenedJob& job, const std::string& path) {
  const DataSource* const source = job.data.held_out.get();
  if (const auto* folder = dynamic_cast<const data::ImageFolderSource*>(source))
    return {{path}, read_image(*folder, path)};
  if (const auto* images = dynamic_cast<const data::ImageSource*>(source))
    return {{path}, read_image(*images, path)};
  const Options data = job.job.object("data");
  const std::string type = data.text("type");
  if (type == "csv") return rows(path, data::read_csv_features(data, path), job.shape().tensors[0]);
  if (type == "npy") {
    const auto bytes = runtime::value_or_throw(data::read_file(path, kFileLimit));
    return rows(path, runtime::value_or_throw(data::parse_npy(bytes, path)), job.shape().tensors[0]);
  }
  throw Exception(
      ErrorCode::kUsage,
      fmt::format("inputs are images, CSV files, arrays of numpy or texts; data of type {} is none of these",
                  type));
}

}  // namespace ddprun::commands
