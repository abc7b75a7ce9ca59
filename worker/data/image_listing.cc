#include "worker/data/image_listing.h"

#include "worker/transforms/random.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <utility>

namespace ddprun::data {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 3> kRead{".jpg", ".jpeg", ".png"};
constexpr std::array<std::string_view, 6> kReadByPythonOnly{".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"};
constexpr std::uint8_t kSplitStream = 2;

std::string lower(std::string name) {
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return name;
}

/// A name may be nothing but an extension, as in Python.
template <std::size_t kCount>
bool has_one_of(const std::array<std::string_view, kCount>& extensions, const std::string& lower_name) {
  return std::any_of(extensions.begin(), extensions.end(),
                     [&](std::string_view extension) { return lower_name.ends_with(extension); });
}

/// What cannot be looked at, a link to itself, is none: reading it will say why, if anybody wants to.
bool is_folder(const fs::directory_entry& entry) {
  std::error_code error;
  return entry.is_directory(error);
}

/// Whether `place` is `folder`, or somewhere in it.
bool is_within(const fs::path& place, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), place.begin(), place.end()).first == folder.end();
}

/// Names in a folder, sorted as bytes, which for UTF-8 is by code point.
std::vector<std::string> sorted_names(const fs::path& folder, bool folders) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (is_folder(entry) == folders) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Whether `entry`, below `top`, is a link to what it is in, or one that it was reached through.
bool leads_back(const fs::directory_entry& entry, const fs::path& top) {
  if (!entry.is_symlink()) return false;
  const fs::path here = fs::canonical(entry.path());
  if (is_within(fs::canonical(entry.path().parent_path()), here)) return true;
  for (fs::path above = entry.path().parent_path(); above.string().size() >= top.string().size();
       above = above.parent_path()) {
    if (fs::canonical(above) == here) return true;
  }
  return false;
}

/// A folder and all below it, sorted by path.
std::vector<std::string> sorted_folders(const fs::path& top) {
  std::vector<std::string> folders{top.string()};
  const auto options = fs::directory_options::follow_directory_symlink;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(top, options)) {
    if (!is_folder(entry)) continue;
    if (leads_back(entry, top))
      throw fs::filesystem_error("it is a link to a folder that it is in; remove it", entry.path(),
                                 std::make_error_code(std::errc::too_many_symbolic_link_levels));
    folders.push_back(entry.path().string());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

Result<void> add_class(const fs::path& folder, ImageListing& listing) {
  const std::size_t before = listing.files.size();
  const auto label = static_cast<std::int64_t>(listing.classes.size()) - 1;
  for (const std::string& place : sorted_folders(folder)) {
    for (const std::string& name : sorted_names(place, /*folders=*/false)) {
      const std::string lower_name = lower(name);
      const std::string path = (fs::path(place) / name).string();
      if (has_one_of(kReadByPythonOnly, lower_name)) {
        return Error(
            ErrorCode::kCorrupt,
            fmt::format("{} is an image that cannot be read here: only .jpg, .jpeg and .png are; convert "
                        "it, or move it away",
                        path));
      }
      if (has_one_of(kRead, lower_name)) listing.files.push_back({path, label});
    }
  }
  if (listing.files.size() > before) return ok();
  return Error(ErrorCode::kCorrupt,
               fmt::format("class {} has no image: {} holds no .jpg, .jpeg or .png; remove the "
                           "folder, or put images there",
                           listing.classes.back(), folder.string()));
}

}  // namespace

Result<ImageListing> list_images(const std::string& folder) {
  try {
    if (!fs::is_directory(folder))
      return Error(ErrorCode::kNotFound, fmt::format("data folder {} is not there; set /data/path", folder));
    ImageListing listing;
    for (const std::string& name : sorted_names(folder, /*folders=*/true)) {
      listing.classes.push_back(name);
      const Result<void> done = add_class(fs::path(folder) / name, listing);
      if (!done) return done.error();
    }
    if (!listing.classes.empty()) return listing;
    return Error(ErrorCode::kNotFound,
                 fmt::format("data folder {} has no folder in it; expected one for each class", folder));
  } catch (const fs::filesystem_error& error) {
    return Error(ErrorCode::kOs, fmt::format("cannot list the images of {}: {}", folder, error.what()));
  }
}

Result<ListingSplits> split_listing(const ImageListing& listing, double held_out_share) {
  ListingSplits splits{{listing.classes, {}}, {listing.classes, {}}};
  std::size_t first = 0;
  while (first < listing.files.size()) {
    const std::int64_t label = listing.files[first].label;
    std::size_t last = first;
    while (last < listing.files.size() && listing.files[last].label == label) ++last;
    const std::size_t count = last - first;
    if (count < 2) {
      return Error(ErrorCode::kCorrupt,
                   fmt::format("class {} has one image only, {}: none can be held out; add images, or make "
                               "folders train and val",
                               listing.classes[static_cast<std::size_t>(label)], listing.files[first].path));
    }
    std::vector<std::size_t> order(count);
    for (std::size_t i = 0; i < count; ++i) order[i] = i;
    transforms::Random random({.index = label, .stream = kSplitStream});
    for (std::size_t left = count; left > 1; --left)
      std::swap(order[left - 1],
                order[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(left)))]);
    const auto wanted = static_cast<std::size_t>(std::lround(held_out_share * static_cast<double>(count)));
    const std::size_t held_out = std::clamp<std::size_t>(wanted, 1, count - 1);
    std::vector<bool> is_held_out(count);
    for (std::size_t i = 0; i < held_out; ++i) is_held_out[order[i]] = true;
    for (std::size_t i = 0; i < count; ++i)
      (is_held_out[i] ? splits.held_out : splits.train).files.push_back(listing.files[first + i]);
    first = last;
  }
  return splits;
}

ImageListing limited(ImageListing listing, std::int64_t limit) {
  const auto count = static_cast<std::int64_t>(listing.files.size());
  if (limit == 0 || limit >= count) return listing;
  std::vector<ImageListing::File> kept;
  for (std::int64_t i = 0; i < limit; ++i)
    kept.push_back(std::move(listing.files[static_cast<std::size_t>(i * count / limit)]));
  listing.files = std::move(kept);
  return listing;
}

}  // namespace ddprun::data
