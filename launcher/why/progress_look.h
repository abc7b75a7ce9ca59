#pragma once

#include "launcher/why/facts.h"
#include "rendezvous/base/progress_page.h"

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace ddprun::launcher::why {

/// The page in which a rank with libddprun tells of itself, mapped to be read.
class ProgressLook {
 public:
  /// Nullopt: the process has no such page, or one of another layout, or of another user.
  static std::optional<ProgressLook> find(pid_t pid);

  ProgressLook(ProgressLook&& other) noexcept;
  ProgressLook& operator=(ProgressLook&& other) noexcept;
  ~ProgressLook();

  /// The newest collectives, the oldest of them first; `next` counts them all.
  [[nodiscard]] Recorder recorder(std::size_t most) const;
  [[nodiscard]] RankProgress progress() const;

 private:
  explicit ProgressLook(const ProgressPage* page) : page_(page) {}

  const ProgressPage* page_;
};

}  // namespace ddprun::launcher::why
