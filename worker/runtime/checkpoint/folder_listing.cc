#include "worker/runtime/checkpoint/folder_listing.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace ddprun::runtime {
namespace {

namespace fs = std::filesystem;

/// Whether a path leads to nothing: not there, or a link that ends nowhere.
bool means_nothing_there(int errno_value) {
  return errno_value == ENOENT || errno_value == ENOTDIR || errno_value == ELOOP;
}

bool is_file(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return S_ISREG(status.st_mode);
  if (!means_nothing_there(errno)) return true;
  return ::lstat(path.c_str(), &status) != 0 && errno == ENOENT;
}

/// The path, or of those above it the last that has something of its name; empty: none has.
fs::path what_stands_there(fs::path path) {
  struct stat status {};
  while (::lstat(path.c_str(), &status) != 0) {
    const fs::path above = path.parent_path();
    if (above.empty() || above == path) return {};
    path = above;
  }
  return path;
}

/// Why there is no folder although something has its name, or that of one above it; empty: nothing has, or it has come
/// to be since.
std::string why_no_folder(const std::string& folder) {
  if (const auto link = link_to_nothing(folder))
    return *link + "; mount what belongs there, or remove the link";
  const fs::path path = what_stands_there(folder);
  struct stat status {};
  if (path.empty() || ::stat(path.c_str(), &status) != 0 || S_ISDIR(status.st_mode)) return {};
  return path.string() + " is no folder";
}

Error cannot_list(const std::string& folder, const std::string& why) {
  return {ErrorCode::kOs,
          fmt::format("cannot list folder {}, so what it holds is not known: {}", folder, why)};
}

}  // namespace

Result<std::vector<std::string>> files_in(const std::string& folder,
                                          const std::function<bool(std::string_view name)>& is_wanted) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (!is_wanted(name)) continue;
    if (is_file(entry->path().string())) names.push_back(std::move(name));
  }
  if (!error) return names;
  if (error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
    return cannot_list(folder, error.message());
  const std::string why = why_no_folder(folder);
  if (!why.empty()) return cannot_list(folder, why);
  return names;
}

std::optional<std::string> link_to_nothing(const std::string& folder) {
  const fs::path path = what_stands_there(folder);
  struct stat status {};
  if (path.empty() || ::lstat(path.c_str(), &status) != 0 || !S_ISLNK(status.st_mode)) return std::nullopt;
  if (::stat(path.c_str(), &status) == 0 || !means_nothing_there(errno)) return std::nullopt;
  std::error_code error;
  return fmt::format("{} is a link to {}, where nothing is", path.string(),
                     fs::read_symlink(path, error).string());
}

}  // namespace ddprun::runtime
