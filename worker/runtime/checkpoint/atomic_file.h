#pragma once

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ddprun::runtime {

/// A file that appears under its name whole or not at all: written under temporary_beside() it, synced, renamed, and
/// the folder synced. Without `commit` nothing remains. Any number of threads, processes and hosts may write one path
/// at a time: the last to commit wins.
///
/// As long as it lives it holds an flock on what it writes, by which remove_leftovers_in() knows it from what a killed
/// process has left. Where a file system has no locks it writes without.
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

/// The name of `folder`, and of those that lead to it, outlast a loss of power, whoever has made them, as far as what
/// they are in can be opened.
void sync_way_to(const std::string& folder);

/// Names in `folder` outlast a loss of power.
Result<void> sync_folder(const std::string& folder);

/// Whether `path` still names the file that is open as `fd`: not another one that has taken its place, and not none.
bool is_file_at(int fd, const std::string& path);

/// A path in the folder of `path` for what will be renamed to it: `.<name>.ddprun-<8 random hex digits>.tmp`.
std::string temporary_beside(const std::string& path);

/// Removes what killed processes have left of the AtomicFiles in `folder`, or of the AtomicFile `path` alone: files of
/// temporary_beside() whose lock is free, so those of live writers stay; where a file system has no locks, those that
/// nobody has written to for a day. What cannot be opened or removed stays, too. Where a mount keeps locks to each host
/// (NFS with local_lock) only the writers of this host are known to live.
void remove_leftovers_in(const std::string& folder);
void remove_leftovers_of(const std::string& path);

}  // namespace ddprun::runtime
