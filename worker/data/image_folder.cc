#include "worker/data/image_folder.h"

#include "rendezvous/base/printable.h"
#include "worker/data/image_source.h"
#include "worker/data/jpeg.h"
#include "worker/data/png.h"
#include "worker/data/read_file.h"
#include <ddprun/exception.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <new>
#include <utility>
#include <vector>

namespace ddprun::data {
namespace {

namespace fs = std::filesystem;
using transforms::Image;
using transforms::Size;
using transforms::Undecoded;
using transforms::Window;

constexpr std::size_t kImageFileLimit = std::size_t{1} << 30;
constexpr std::size_t kMostNamed = 20;
constexpr std::size_t kShownReason = 1000;

/// What torchvision's pre-trained models expect.
const transforms::Normalization kImageNet{.mean = {0.485F, 0.456F, 0.406F},
                                          .deviation = {0.229F, 0.224F, 0.225F}};

[[noreturn]] void raise(const Error& error) { throw Exception(error.code(), error.message()); }

template <class T>
T value_or_throw(Result<T> result) {
  if (!result) raise(result.error());
  return std::move(*result);
}

bool is_png(const std::vector<std::uint8_t>& bytes) {
  return bytes.size() >= 4 && bytes[0] == 0x89 && bytes[1] == 'P' && bytes[2] == 'N' && bytes[3] == 'G';
}

/// Folders of the two splits; `held_out` is empty where `path` holds the classes themselves.
struct Folders {
  std::string train;
  std::string held_out;
};

Folders find_folders(const std::string& path) {
  const auto below = [&](const char* name) { return (fs::path(path) / name).string(); };
  if (!fs::is_directory(below("train"))) return {path, ""};
  const bool has_val = fs::is_directory(below("val"));
  const bool has_test = fs::is_directory(below("test"));
  if (has_val || has_test) return {below("train"), below(has_val ? "val" : "test")};
  raise({ErrorCode::kNotFound,
         fmt::format("data folder {} has a folder train, but neither val nor test beside it", path)});
}

void check_classes(const ImageListing& train, const ImageListing& held_out, const Folders& folders) {
  if (train.classes == held_out.classes) return;
  std::vector<std::string> different;
  std::set_symmetric_difference(train.classes.begin(), train.classes.end(), held_out.classes.begin(),
                                held_out.classes.end(), std::back_inserter(different));
  raise({ErrorCode::kCorrupt,
         fmt::format(
             "{} and {} have different classes: {} of {} and {} are in one of them only, the first is {}",
             folders.train, folders.held_out, different.size(), train.classes.size(), held_out.classes.size(),
             different.front())});
}

ListingSplits list_splits(const Options& options) {
  const double share = options.number("held_out_share");
  const Folders folders = find_folders(options.text("path"));
  ImageListing train = value_or_throw(list_images(folders.train));
  if (folders.held_out.empty()) return value_or_throw(split_listing(train, share));
  ImageListing held_out = value_or_throw(list_images(folders.held_out));
  check_classes(train, held_out, folders);
  return {std::move(train), std::move(held_out)};
}

}  // namespace

Undecoded open_image(const std::vector<std::uint8_t>& bytes, const std::string& path) {
  if (is_png(bytes)) {
    return {value_or_throw(read_png_size(bytes, path)), [&](const Window& window) {
              return transforms::crop(value_or_throw(decode_png(bytes, path)), window);
            }};
  }
  return {value_or_throw(read_jpeg_size(bytes, path)),
          [&](const Window& window) { return value_or_throw(decode_jpeg(bytes, window, path)); }};
}

ImageFolderSource::ImageFolderSource(ImageListing listing, transforms::Chain chain, OnDamage on_damage)
    : listing_(std::move(listing)),
      chain_(std::move(chain)),
      on_damage_(on_damage),
      shape_(image_shape(chain_, static_cast<std::int64_t>(listing_.classes.size()), listing_.classes)) {}

Batch ImageFolderSource::make_batch(const BatchRequest& request) const { return make<float>(request); }

Batch ImageFolderSource::make_byte_batch(const BatchRequest& request) const {
  return make<std::uint8_t>(request);
}

template <class Element>
Batch ImageFolderSource::make(const BatchRequest& request) const {
  const ImageBatch<Element> batch(request, chain_);
  for (std::size_t i = 0; i < request.indices.size(); ++i) {
    std::int64_t index = request.indices[i];
    for (std::int64_t tried = 1;; ++tried) {
      try {
        batch.label(i) = write_sample(request, index, batch.image(i));
        break;
      } catch (const Exception& error) {
        if (on_damage_ == OnDamage::kStop || error.code() != ErrorCode::kCorrupt || tried == size()) throw;
        skip(listing_.files[static_cast<std::size_t>(index)].path, error.what());
        index = (index + 1) % size();
      }
    }
  }
  return batch.take();
}

template <class Element>
std::int64_t ImageFolderSource::write_sample(const BatchRequest& request, std::int64_t index,
                                             Element* out) const {
  const ImageListing::File& file = listing_.files[static_cast<std::size_t>(index)];
  const std::vector<std::uint8_t> bytes = value_or_throw(read_file(file.path, kImageFileLimit));
  const transforms::Random random({.seed = request.seed, .epoch = request.epoch, .index = index});
  const Undecoded image = open_image(bytes, file.path);
  try {
    chain_.write(image, random, out);
  } catch (const Exception& error) {
    // A transform knows its place in the job file, and not which image it has before it.
    const std::string message = error.what();
    if (message.starts_with(file.path)) throw;
    throw Exception(error.code(), fmt::format("{}: {}", file.path, message));
  } catch (const std::bad_alloc&) {
    raise({ErrorCode::kOs,
           fmt::format("no memory for image {} of {} × {} pixels; lower /data/loader_threads, or "
                       "make the image smaller",
                       file.path, image.size.height, image.size.width)});
  }
  return file.label;
}

void ImageFolderSource::skip(const std::string& path, const std::string& why) const {
  const std::scoped_lock lock(mutex_);
  if (!damaged_.insert(path).second || damaged_.size() > kMostNamed) return;
  const char* more = damaged_.size() == kMostNamed ? "; further ones are not named" : "";
  const std::string line =
      fmt::format("data: skipped image {}: {}{}\n", damaged_.size(), printable(why, kShownReason), more);
  std::fputs(line.c_str(), stderr);
}

std::int64_t ImageFolderSource::left_out() const {
  const std::scoped_lock lock(mutex_);
  return static_cast<std::int64_t>(damaged_.size());
}

DataSplits open_image_folder(const Options& options) {
  const OnDamage on_damage = options.text("damaged") == "skip" ? OnDamage::kSkip : OnDamage::kStop;
  const std::int64_t train_limit = options.integer("train_samples");
  const std::int64_t test_limit = options.integer("test_samples");
  ListingSplits splits = list_splits(options);
  const transforms::ChainInput input{.channels = 3, .size = std::nullopt, .normalization = kImageNet};
  Chains chains = read_chains(options, input, input);
  return {std::make_shared<ImageFolderSource>(limited(std::move(splits.train), train_limit),
                                              std::move(chains.train), on_damage),
          std::make_shared<ImageFolderSource>(limited(std::move(splits.held_out), test_limit),
                                              std::move(chains.held_out), on_damage)};
}

}  // namespace ddprun::data
