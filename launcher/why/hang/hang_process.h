#pragma once

#include "launcher/report/findings.h"
#include "launcher/why/desk/quiet_since.h"
#include "launcher/why/facts/facts.h"
#include "launcher/why/hang/hang_policy.h"
#include "launcher/why/look/look.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun::launcher::why {

/// What the watching process says to the launcher, one in a line.
using News = std::variant<Hang, Straggler>;
std::string to_text(const News& news);
std::optional<News> parse_news(std::string_view line);

/// A process beside the launcher that looks at the ranks of one generation, four times in each limit, and says news,
/// one in a line, into `news`. What it reads can hang, and so can what it looks with: the launcher never waits for it.
///
/// Process  a fork of the launcher, called "hang-watch" (beside.h). Destroyed: killed.
class HangProcess {
 public:
  /// `picture` holds what is known of the job; `quiet` is told what the process feels. Errors kOs.
  static Result<HangProcess> start(const JobPicture& picture, const std::vector<RankTarget>& targets,
                                   HangLimits limits, QuietSince& quiet);

  HangProcess(HangProcess&&) = default;
  HangProcess& operator=(HangProcess&&) = delete;
  ~HangProcess();

  /// Readable, without blocking; gives the descriptor away.
  [[nodiscard]] int release_news() { return news_.release(); }

 private:
  HangProcess(UniqueFd pidfd, UniqueFd news) : pidfd_(std::move(pidfd)), news_(std::move(news)) {}

  UniqueFd pidfd_;
  UniqueFd news_;
};

}  // namespace ddprun::launcher::why
