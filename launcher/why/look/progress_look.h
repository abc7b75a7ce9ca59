#pragma once

#include "launcher/why/facts/facts.h"
#include "rendezvous/base/progress_page.h"

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::launcher::why {

/// The page in which a rank with libddprun tells of itself, mapped to be read.
class ProgressLook {
 public:
  /// Nullopt: the process has no such page, or one of another layout, or of another user.
  static std::optional<ProgressLook> find(pid_t pid);

  ProgressLook(ProgressLook&& other) noexcept;
  ProgressLook& operator=(ProgressLook&& other) noexcept;
  ~ProgressLook();

  /// False: the process has gone on to another program.
  [[nodiscard]] bool is_current() const;

  /// The newest collectives, the oldest of them first; `next` counts them all.
  [[nodiscard]] Recorder recorder(std::size_t most) const;
  /// The process groups that the rank is in, as long as all that it has begun is still there: otherwise who seems not
  /// to have used a group may have.
  [[nodiscard]] std::vector<Membership> memberships() const;
  [[nodiscard]] RankProgress progress() const;

 private:
  ProgressLook(const ProgressPage* page, std::string path, ino_t inode)
      : page_(page), path_(std::move(path)), inode_(inode) {}

  const ProgressPage* page_;
  std::string path_;  ///< of the process's descriptor
  ino_t inode_;
};

}  // namespace ddprun::launcher::why
