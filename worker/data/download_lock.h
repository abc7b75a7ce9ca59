#pragma once

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

#include <functional>
#include <optional>
#include <stop_token>
#include <string>

namespace ddprun::data {

/// The right to download into a folder: a locked file .download.lock in it, which goes with this object. The
/// kernel lets go of it when its holder ends, whatever ends it.
class DownloadLock {
 public:
  /// Waits until nobody else has it. `tell` is called once with who has it, where that is not a process of the
  /// same parent: ranks of one job need not be told of each other. Where the file system has no locks, everybody
  /// gets it.
  ///
  /// Errors  kOs: the folder cannot be made, or the file not be written; kInternal: `stop`.
  static Result<DownloadLock> take(const std::string& folder, const std::stop_token& stop,
                                   const std::function<void(const std::string& holder)>& tell);

  DownloadLock(DownloadLock&&) noexcept = default;
  DownloadLock& operator=(DownloadLock&&) = delete;
  ~DownloadLock();

  /// What the one that was waited for has failed of; none: nobody was waited for, or that one has not failed.
  [[nodiscard]] const std::optional<Error>& failure_before() const { return failure_before_; }
  /// Leaves `failure` to those that wait.
  void leave_failure(const Error& failure);

 private:
  DownloadLock(std::string folder, UniqueFd file, std::optional<Error> failure_before)
      : folder_(std::move(folder)), file_(std::move(file)), failure_before_(std::move(failure_before)) {}

  std::string folder_;
  UniqueFd file_;
  std::optional<Error> failure_before_;
  bool has_made_folder_ = false;
};

}  // namespace ddprun::data
