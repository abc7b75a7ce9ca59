#pragma once

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ddprun::runtime {

/// A file that appears under its name whole or not at all: written as `.<name>.<pid>.tmp` beside it, synced,
/// renamed, and the folder synced. Without `commit` nothing remains.
class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  /// Appends.
  Result<void> write(std::span<const std::byte> bytes);
  Result<void> commit();

  [[nodiscard]] std::uint64_t size() const { return size_; }

 private:
  AtomicFile(std::string path, std::string temporary, UniqueFd fd);

  std::string path_;
  std::string temporary_;  // empty: nothing to remove
  UniqueFd fd_;
  std::uint64_t size_ = 0;
};

/// Makes `folder` and those above it that are not there, each of which outlasts a loss of power.
Result<void> create_folders(const std::string& folder);

/// Names in `folder` outlast a loss of power.
Result<void> sync_folder(const std::string& folder);

/// Whether `name` (no folder) is what AtomicFile leaves behind when its process is killed.
bool is_leftover(const std::string& name);

/// Removes what killed processes have left of the AtomicFile `path`: nobody else writes it at the time.
void remove_leftovers_of(const std::string& path);

}  // namespace ddprun::runtime
