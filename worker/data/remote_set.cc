#include "worker/data/remote_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

namespace ddprun::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCifarPlace = "https://www.cs.toronto.edu/~kriz/";

RemoteSet mnist_set() {
  return {"MNIST",
          {"https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/"},
          {{"train-images-idx3-ubyte.gz", 9912422, "f68b3c2dcbeaaa9fbdd348bbdeb94873", {}, {}},
           {"train-labels-idx1-ubyte.gz", 28881, "d53e105ee54ea40749a09fcbcd1e9432", {}, {}},
           {"t10k-images-idx3-ubyte.gz", 1648877, "9fb629c4189551a2d022fa330f9573f3", {}, {}},
           {"t10k-labels-idx1-ubyte.gz", 4542, "ec29112dd5afa0611ce80d1b7f02629c", {}, {}}}};
}

RemoteSet fashion_mnist_set() {
  return {"Fashion-MNIST",
          {"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"},
          {{"train-images-idx3-ubyte.gz", 26421880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d", {}, {}},
           {"train-labels-idx1-ubyte.gz", 29515, "25c81989df183df01b3e8a0aad5dffbe", {}, {}},
           {"t10k-images-idx3-ubyte.gz", 4422102, "bef4ecab320f06d8554ea6380940ec79", {}, {}},
           {"t10k-labels-idx1-ubyte.gz", 5148, "bb300cfdad3c16e7a12a480ee83cd310", {}, {}}}};
}

// A job reads data_batch_1.bin and the batches that follow it, and test_batch.bin: whoever ends in the middle leaves
// a set that is not there, and not one that is smaller.
RemoteSet cifar10_set() {
  return {"CIFAR-10",
          {kCifarPlace},
          {{"cifar-10-binary.tar.gz",
            170052171,
            "c32a1d4ab5d03f1284b67883e8d87530",
            {"batches.meta.txt", "data_batch_5.bin", "data_batch_4.bin", "data_batch_3.bin",
             "data_batch_2.bin", "data_batch_1.bin", "test_batch.bin"},
            {{"data_batch_1.bin", "test_batch.bin"}, {"data_batch_1", "test_batch"}}}}};
}

RemoteSet cifar100_set() {
  return {"CIFAR-100",
          {kCifarPlace},
          {{"cifar-100-binary.tar.gz",
            168513733,
            "03b5dce01913d631647c71ecec9e9cb8",
            {"fine_label_names.txt", "train.bin", "test.bin"},
            {{"train.bin", "test.bin"}, {"train", "test"}}}}};
}

bool is_in(const std::string& folder, const std::string& name) {
  std::error_code error;
  return fs::exists(fs::path(folder) / name, error);
}

bool is_missing(const RemoteFile& file, const std::string& folder) {
  if (!file.members.empty()) {
    const auto are_all_there = [&](const std::vector<std::string>& names) {
      return std::all_of(names.begin(), names.end(),
                         [&](const std::string& name) { return is_in(folder, name); });
    };
    return std::none_of(file.enough.begin(), file.enough.end(), are_all_there);
  }
  constexpr std::string_view kPacked = ".gz";
  const bool is_packed = file.name.ends_with(kPacked);
  return !is_in(folder, file.name) &&
         !(is_packed && is_in(folder, file.name.substr(0, file.name.size() - kPacked.size())));
}

}  // namespace

std::optional<RemoteSet> remote_set(const std::string& type) {
  if (type == "mnist") return mnist_set();
  if (type == "fashion_mnist") return fashion_mnist_set();
  if (type == "cifar10") return cifar10_set();
  if (type == "cifar100") return cifar100_set();
  return std::nullopt;
}

std::vector<RemoteFile> missing_files(const RemoteSet& set, const std::string& folder) {
  std::vector<RemoteFile> missing;
  for (const RemoteFile& file : set.files)
    if (is_missing(file, folder)) missing.push_back(file);
  return missing;
}

std::vector<RemoteFile> with_sums(std::vector<RemoteFile> files, const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string sum, name;
    if (!(words >> sum >> name) || sum.size() != 32) continue;
    std::transform(sum.begin(), sum.end(), sum.begin(), [](char digit) {
      return digit >= 'A' && digit <= 'F' ? static_cast<char>(digit - 'A' + 'a') : digit;
    });
    if (name.starts_with('*')) name.erase(0, 1);  // md5sum --binary
    for (RemoteFile& file : files) {
      if (file.name != name || file.md5 == sum) continue;
      file.md5 = sum;
      file.bytes = 0;
    }
  }
  return files;
}

std::string size_in_words(std::int64_t bytes) {
  const auto number = static_cast<double>(bytes);
  if (bytes < 1000) return fmt::format("{} bytes", bytes);
  if (bytes < 1'000'000) return fmt::format("{:.1f} KB", number / 1e3);
  if (bytes < 1'000'000'000) return fmt::format("{:.1f} MB", number / 1e6);
  return fmt::format("{:.1f} GB", number / 1e9);
}

std::string files_in_words(const std::vector<RemoteFile>& files) {
  std::int64_t bytes = 0;
  bool is_known = true;
  for (const RemoteFile& file : files) {
    bytes += file.bytes;
    is_known = is_known && file.bytes > 0;
  }
  const std::string names = files.size() == 1 ? files[0].name : fmt::format("{} files", files.size());
  return is_known ? fmt::format("{} ({})", names, size_in_words(bytes)) : names;
}

}  // namespace ddprun::data
