#pragma once

#include "launcher/report/findings.h"
#include "launcher/why/desk/beside.h"
#include "launcher/why/desk/quiet_since.h"
#include "launcher/why/facts/facts.h"
#include "launcher/why/hang/hang_policy.h"
#include "launcher/why/look/look.h"
#include "rendezvous/base/result.h"

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

/// Starts a process beside the launcher, "hang-watch", that looks at the ranks of one generation, four times in each
/// limit, and says news, one in a line. What it reads can hang, and so can what it looks with: the launcher never waits
/// for it. `picture` holds what is known of the job; `quiet` is told what the process feels. Errors kOs.
Result<Beside> start_hang_process(const JobPicture& picture, const std::vector<RankTarget>& targets,
                                  HangLimits limits, QuietSince& quiet);

}  // namespace ddprun::launcher::why
