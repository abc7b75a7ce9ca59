#include "worker/data/cifar.h"

#include "worker/data/read_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <utility>

namespace ddprun::data {
namespace {

constexpr std::int64_t kSide = 32;
constexpr std::int64_t kChannels = 3;
constexpr std::int64_t kPixels = kChannels * kSide * kSide;
constexpr std::size_t kCifarFileLimit = std::size_t{1} << 30;
constexpr std::size_t kNamesLimit = std::size_t{1} << 16;

/// What differs between the two sets.
struct Layout {
  const char* name;
  std::int64_t classes;
  std::int64_t label_bytes;  // the last one is the class
  std::vector<std::string> train_files;
  const char* test_file;
  const char* names_file;
  std::vector<float> mean;
  std::vector<float> deviation;
};

Layout layout_of(Cifar which) {
  if (which == Cifar::k100) {
    return {"CIFAR-100",
            100,
            2,
            {"train.bin"},
            "test.bin",
            "fine_label_names.txt",
            {0.5071F, 0.4865F, 0.4409F},
            {0.2673F, 0.2564F, 0.2762F}};
  }
  Layout ten{"CIFAR-10",
             10,
             1,
             {},
             "test_batch.bin",
             "batches.meta.txt",
             {0.4914F, 0.4822F, 0.4465F},
             {0.2470F, 0.2435F, 0.2616F}};
  for (int i = 1; i <= 5; ++i) ten.train_files.push_back(fmt::format("data_batch_{}.bin", i));
  return ten;
}

bool is_there(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0;
}

Error not_there(const Layout& layout, const std::string& path) {
  return {ErrorCode::kNotFound,
          fmt::format("{} file {} is not there; set /data/path to the folder that holds the files of the "
                      "binary version, or /data/download to true",
                      layout.name, path)};
}

/// The training files that are there: from the first one, without a gap.
Result<std::vector<std::string>> train_files(const Layout& layout, const std::string& folder) {
  std::vector<std::string> found;
  std::string missing;
  for (const std::string& name : layout.train_files) {
    const std::string path = folder + "/" + name;
    if (!is_there(path)) {
      if (missing.empty()) missing = path;
    } else if (!missing.empty()) {
      return Error(
          ErrorCode::kNotFound,
          fmt::format("{} file {} is not there, but {} is; fetch the set again", layout.name, missing, path));
    } else {
      found.push_back(path);
    }
  }
  if (found.empty()) return not_there(layout, missing);
  return found;
}

/// Appends the records of a file to `images`, at most up to `limit` images in all.
Result<void> append(const Layout& layout, const std::string& path, std::int64_t limit, Images& images) {
  if (!is_there(path)) return not_there(layout, path);
  const Result<std::vector<std::uint8_t>> bytes = read_file(path, kCifarFileLimit);
  if (!bytes) return bytes.error();
  const std::int64_t record = layout.label_bytes + kPixels;
  const auto size = static_cast<std::int64_t>(bytes->size());
  if (size == 0 || size % record != 0) {
    return Error(
        ErrorCode::kCorrupt,
        fmt::format("{} is not a file of {}: it has {} bytes, expected a multiple of {} ({} of labels "
                    "and {} of pixels an image); fetch it again",
                    path, layout.name, size, record, layout.label_bytes, kPixels));
  }
  for (std::int64_t i = 0; i < size / record && (limit == 0 || images.count < limit); ++i) {
    const auto start = bytes->begin() + i * record;
    const std::uint8_t label = start[layout.label_bytes - 1];
    if (label >= layout.classes) {
      return Error(ErrorCode::kCorrupt,
                   fmt::format("{} is damaged: the label of image {} is {}, expected 0 to {}", path, i, label,
                               layout.classes - 1));
    }
    images.labels.push_back(label);
    images.pixels.insert(images.pixels.end(), start + layout.label_bytes, start + record);
    ++images.count;
  }
  return ok();
}

Result<std::vector<std::string>> class_names(const Layout& layout, const std::string& folder) {
  std::vector<std::string> names;
  const std::string path = folder + "/" + layout.names_file;
  if (!is_there(path)) return names;
  const Result<std::vector<std::uint8_t>> bytes = read_file(path, kNamesLimit);
  if (!bytes) return bytes.error();
  std::istringstream text(std::string(bytes->begin(), bytes->end()));
  std::string line;
  while (std::getline(text, line)) {
    while (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  if (static_cast<std::int64_t>(names.size()) != layout.classes) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{} has {} names of classes, expected {}; remove it, or fetch it again", path,
                             names.size(), layout.classes));
  }
  return names;
}

}  // namespace

Result<ImageSplits> load_cifar(Cifar which, const std::string& folder, const SampleLimits& limits) {
  const Layout layout = layout_of(which);
  if (!is_there(folder)) {
    return Error(ErrorCode::kNotFound,
                 fmt::format("data folder {} is not there; set /data/path to the folder that holds the files "
                             "of {}'s binary version, or /data/download to true",
                             folder, layout.name));
  }
  const Result<std::vector<std::string>> names = class_names(layout, folder);
  if (!names) return names.error();
  const Result<std::vector<std::string>> files = train_files(layout, folder);
  if (!files) return files.error();
  Images empty{.channels = kChannels,
               .height = kSide,
               .width = kSide,
               .classes = layout.classes,
               .class_names = *names,
               .mean = layout.mean,
               .deviation = layout.deviation,
               .pixels = {},
               .labels = {}};
  ImageSplits splits{empty, std::move(empty)};
  for (const std::string& path : *files) {
    const Result<void> done = append(layout, path, limits.train, splits.train);
    if (!done) return done.error();
  }
  const Result<void> done = append(layout, folder + "/" + layout.test_file, limits.held_out, splits.held_out);
  if (!done) return done.error();
  return splits;
}

}  // namespace ddprun::data
