#include "worker/data/cifar.h"

#include "worker/data/cifar_pickle.h"
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

enum class Version { kBinary, kPython };

/// What differs between the two sets, and between their versions.
struct Layout {
  const char* name;
  std::int64_t classes;
  std::int64_t label_bytes;  // of the binary version; the last one is the class
  const char* label_key;     // of Python's
  const char* names_key;     // of Python's
  std::vector<std::string> train_files;
  std::string test_file;
  std::string names_file;
  std::vector<float> mean;
  std::vector<float> deviation;
  Version version = Version::kBinary;
};

Layout layout_of(Cifar which) {
  if (which == Cifar::k100) {
    return {"CIFAR-100",
            100,
            2,
            "fine_labels",
            "fine_label_names",
            {"train.bin"},
            "test.bin",
            "fine_label_names.txt",
            {0.5071F, 0.4865F, 0.4409F},
            {0.2673F, 0.2564F, 0.2762F}};
  }
  Layout ten{"CIFAR-10",
             10,
             1,
             "labels",
             "label_names",
             {},
             "test_batch.bin",
             "batches.meta.txt",
             {0.4914F, 0.4822F, 0.4465F},
             {0.2470F, 0.2435F, 0.2616F}};
  for (int i = 1; i <= 5; ++i) ten.train_files.push_back(fmt::format("data_batch_{}.bin", i));
  return ten;
}

/// The same set as Python's programs have it: pickled, in files without an ending.
Layout python_version(Layout layout, Cifar which) {
  const auto without_ending = [](std::string& name) { name.erase(name.rfind('.')); };
  for (std::string& name : layout.train_files) without_ending(name);
  without_ending(layout.test_file);
  layout.names_file = which == Cifar::k10 ? "batches.meta" : "meta";
  layout.version = Version::kPython;
  return layout;
}

bool is_there(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0;
}

Error not_there(const Layout& layout, const std::string& path) {
  return {ErrorCode::kNotFound,
          fmt::format("{} file {} is not there; set /data/path to the folder that holds the files of the "
                      "binary version or of Python's, or /data/download to true",
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

Result<LabelledRows> read_binary_rows(const Layout& layout, const std::vector<std::uint8_t>& bytes,
                                      const std::string& path) {
  const std::int64_t record = layout.label_bytes + kPixels;
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (size == 0 || size % record != 0) {
    return Error(
        ErrorCode::kCorrupt,
        fmt::format("{} is not a file of {}: it has {} bytes, expected a multiple of {} ({} of labels "
                    "and {} of pixels an image); fetch it again",
                    path, layout.name, size, record, layout.label_bytes, kPixels));
  }
  LabelledRows rows;
  for (auto start = bytes.begin(); start != bytes.end(); start += record) {
    rows.labels.push_back(start[layout.label_bytes - 1]);
    rows.pixels.insert(rows.pixels.end(), start + layout.label_bytes, start + record);
  }
  return rows;
}

/// Appends the images of a file to `images`, at most up to `limit` images in all.
Result<void> append(const Layout& layout, const std::string& path, std::int64_t limit, Images& images) {
  if (!is_there(path)) return not_there(layout, path);
  const Result<std::vector<std::uint8_t>> bytes = read_file(path, kCifarFileLimit);
  if (!bytes) return bytes.error();
  const Result<LabelledRows> rows = layout.version == Version::kBinary
                                        ? read_binary_rows(layout, *bytes, path)
                                        : read_pickled_rows(*bytes, layout.label_key, path);
  if (!rows) return rows.error();
  const auto count = static_cast<std::int64_t>(rows->labels.size());
  if (count == 0 || rows->pixels.size() != static_cast<std::size_t>(count * kPixels)) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{} is not a file of {}: it has {} labels and {} bytes of pixels, expected {} "
                             "an image; fetch the set again",
                             path, layout.name, count, rows->pixels.size(), kPixels));
  }
  for (std::int64_t i = 0; i < count && (limit == 0 || images.count < limit); ++i) {
    const std::int64_t label = rows->labels[static_cast<std::size_t>(i)];
    if (label < 0 || label >= layout.classes) {
      return Error(ErrorCode::kCorrupt,
                   fmt::format("{} is damaged: the label of image {} is {}, expected 0 to {}", path, i, label,
                               layout.classes - 1));
    }
    const auto start = rows->pixels.begin() + i * kPixels;
    images.labels.push_back(static_cast<std::uint8_t>(label));
    images.pixels.insert(images.pixels.end(), start, start + kPixels);
    ++images.count;
  }
  return ok();
}

std::vector<std::string> lines_of(const std::vector<std::uint8_t>& bytes) {
  std::vector<std::string> lines;
  std::istringstream text(std::string(bytes.begin(), bytes.end()));
  std::string line;
  while (std::getline(text, line)) {
    while (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

Result<std::vector<std::string>> class_names(const Layout& layout, const std::string& folder) {
  const std::string path = folder + "/" + layout.names_file;
  if (!is_there(path)) return std::vector<std::string>();
  const Result<std::vector<std::uint8_t>> bytes = read_file(path, kNamesLimit);
  if (!bytes) return bytes.error();
  Result<std::vector<std::string>> names = layout.version == Version::kBinary
                                               ? lines_of(*bytes)
                                               : read_pickled_names(*bytes, layout.names_key, path);
  if (!names) return names.error();
  if (static_cast<std::int64_t>(names->size()) != layout.classes) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{} has {} names of classes, expected {}; remove it, or fetch it again", path,
                             names->size(), layout.classes));
  }
  return names;
}

}  // namespace

Result<ImageSplits> load_cifar(Cifar which, const std::string& folder, const SampleLimits& limits) {
  const Layout binary = layout_of(which);
  const Layout python = python_version(binary, which);
  const bool is_python = !is_there(folder + "/" + binary.train_files.front()) &&
                         is_there(folder + "/" + python.train_files.front());
  const Layout& layout = is_python ? python : binary;
  if (!is_there(folder)) {
    return Error(ErrorCode::kNotFound,
                 fmt::format("data folder {} is not there; set /data/path to the folder that holds the files "
                             "of {}'s binary version or of Python's, or /data/download to true",
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
