#include "worker/data/mnist.h"

#include "worker/data/idx.h"
#include "worker/data/read_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ddprun::data {
namespace {

constexpr std::size_t kImagesLimit = std::size_t{4} << 30;
constexpr std::size_t kLabelsLimit = idx_header_size(1) + (std::size_t{1} << 27);
constexpr float kMean = 0.1307F;
constexpr float kDeviation = 0.3081F;

/// What sets one official file of labels apart from the other's: ten of one are another's once in 10^10.
constexpr std::size_t kFirstLabels = 10;
struct Official {
  const char* name;
  const char* type;  ///< /data/type
  std::array<std::uint8_t, kFirstLabels> train;
  std::array<std::uint8_t, kFirstLabels> held_out;
};
constexpr Official kDigits{"MNIST", "mnist", {5, 0, 4, 1, 9, 2, 1, 3, 1, 4}, {7, 2, 1, 0, 4, 1, 4, 9, 5, 9}};
constexpr Official kFashion{
    "Fashion-MNIST", "fashion_mnist", {9, 0, 0, 3, 0, 2, 7, 2, 5, 5}, {9, 2, 1, 1, 6, 1, 4, 6, 5, 7}};
constexpr std::size_t kOfficialTrain = 60000;
constexpr std::size_t kOfficialHeldOut = 10000;

bool are_of(const Official& set, bool is_train, const std::vector<std::uint8_t>& labels) {
  if (labels.size() != (is_train ? kOfficialTrain : kOfficialHeldOut)) return false;
  const auto& first = is_train ? set.train : set.held_out;
  return std::equal(first.begin(), first.end(), labels.begin());
}

bool exists(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0;
}

/// A file of the set, of which no more than the header has been read.
struct IdxFile {
  std::string path;
  int dimensions = 0;
  IdxHeader header;
};

Result<IdxFile> open_idx(const std::string& plain, int dimensions, std::size_t limit) {
  const std::string path = exists(plain) ? plain : plain + ".gz";
  if (!exists(path)) {
    return Error(
        ErrorCode::kNotFound,
        fmt::format(
            "MNIST file {} is not there, neither plain nor with .gz; set /data/path to the folder that "
            "holds the four files of MNIST, or /data/download to true",
            plain));
  }
  const Result<std::vector<std::uint8_t>> start = read_start_of_file(path, idx_header_size(dimensions));
  if (!start) return start.error();
  Result<IdxHeader> header = parse_idx_header(*start, dimensions, limit, path);
  if (!header) return header.error();
  return IdxFile{path, dimensions, std::move(*header)};
}

/// A packed file that holds more than its header announces is not inflated beyond the first such byte.
Result<IdxArray> load_idx(const IdxFile& file) {
  Result<std::vector<std::uint8_t>> bytes = read_start_of_file(file.path, file.header.bytes + 1);
  if (!bytes) return bytes.error();
  return parse_idx(std::move(*bytes), file.dimensions, file.path);
}

Result<void> check_fit(const IdxHeader& labels, const IdxHeader& images, const std::string& folder,
                       const std::string& stem) {
  const std::vector<std::int64_t>& sizes = images.sizes;
  if (sizes[1] != kMnistSide || sizes[2] != kMnistSide) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{}/{}-images-idx3-ubyte holds images of {} × {} pixels, expected 28 × 28",
                             folder, stem, sizes[1], sizes[2]));
  }
  if (sizes[0] != labels.sizes[0]) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{0}/{1}-images-idx3-ubyte has {2} images, but {1}-labels-idx1-ubyte has {3} "
                             "labels; they are not of one set",
                             folder, stem, sizes[0], labels.sizes[0]));
  }
  if (sizes[0] == 0) {
    return Error(ErrorCode::kCorrupt, fmt::format("{}/{}-images-idx3-ubyte holds no image", folder, stem));
  }
  return ok();
}

/// What the headers announce has to fit before anything after them is inflated: a small packed file may hold gigabytes.
Result<Images> load_split(Mnist which, const std::string& folder, const std::string& stem,
                          std::int64_t limit) {
  const std::string start = folder + "/" + stem;
  const Result<IdxFile> labels_file = open_idx(start + "-labels-idx1-ubyte", 1, kLabelsLimit);
  if (!labels_file) return labels_file.error();
  const Result<IdxFile> images_file = open_idx(start + "-images-idx3-ubyte", 3, kImagesLimit);
  if (!images_file) return images_file.error();
  if (Result<void> fit = check_fit(labels_file->header, images_file->header, folder, stem); !fit)
    return fit.error();
  Result<IdxArray> labels = load_idx(*labels_file);
  if (!labels) return labels.error();
  const Official& other = which == Mnist::kDigits ? kFashion : kDigits;
  if (are_of(other, stem == "train", labels->elements)) {
    return Error(
        ErrorCode::kConfig,
        fmt::format("{} holds {}, as the first labels of {}-labels-idx1-ubyte say, and /data/type is {}; set "
                    "/data/type to {}, or /data/path to another folder",
                    folder, other.name, stem, (which == Mnist::kDigits ? kDigits : kFashion).type,
                    other.type));
  }
  const auto bad = std::find_if(labels->elements.begin(), labels->elements.end(),
                                [](std::uint8_t label) { return label >= kMnistClasses; });
  if (bad != labels->elements.end()) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{}/{}-labels-idx1-ubyte is damaged: label {} is {}, expected 0 to 9", folder,
                             stem, bad - labels->elements.begin(), *bad));
  }
  Result<IdxArray> images = load_idx(*images_file);
  if (!images) return images.error();
  Images set;
  const std::int64_t count = images->sizes[0];
  set.count = limit > 0 ? std::min(limit, count) : count;
  set.height = kMnistSide;
  set.width = kMnistSide;
  set.classes = kMnistClasses;
  set.mean = {kMean};
  set.deviation = {kDeviation};
  set.pixels = std::move(images->elements);
  set.pixels.resize(static_cast<std::size_t>(set.count * set.image_size()));
  set.labels = std::move(labels->elements);
  set.labels.resize(static_cast<std::size_t>(set.count));
  return set;
}

}  // namespace

Result<ImageSplits> load_mnist(Mnist which, const std::string& folder, const SampleLimits& limits) {
  if (!exists(folder)) {
    return Error(ErrorCode::kNotFound,
                 fmt::format("data folder {} is not there; set /data/path to the folder that holds "
                             "the four files of MNIST, or /data/download to true",
                             folder));
  }
  Result<Images> held_out = load_split(which, folder, "t10k", limits.held_out);
  if (!held_out) return held_out.error();
  Result<Images> train = load_split(which, folder, "train", limits.train);
  if (!train) return train.error();
  return ImageSplits{std::move(*train), std::move(*held_out)};
}

}  // namespace ddprun::data
