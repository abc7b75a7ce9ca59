#include "worker/runtime/process/drain/meeting.h"

#include "worker/runtime/comm/roll_call/store_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace ddprun::runtime {
std::optional<Attendance> meet(c10d::Store& store, const std::string& prefix, int rank, int world_size,
                               std::int64_t step, std::chrono::milliseconds timeout) {
  const auto key_of = [&](int one) { return fmt::format("{}/step/{}", prefix, one); };
  const std::string everyone = prefix + "/everyone";
  put_text(store, key_of(rank), std::to_string(step));
  if (store.add(prefix + "/arrived", 1) == world_size) {
    Attendance all{std::numeric_limits<std::int64_t>::max(), 0};
    for (int one = 0; one < world_size; ++one) {
      const std::int64_t theirs = std::stoll(take_text(store, key_of(one)));
      all = {std::min(all.first, theirs), std::max(all.last, theirs)};
    }
    put_text(store, everyone, fmt::format("{} {}", all.first, all.last));
    return all;
  }
  try {
    store.wait({everyone}, timeout);
    const std::string text = take_text(store, everyone);
    return Attendance{std::stoll(text), std::stoll(text.substr(text.find(' ')))};
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace ddprun::runtime
