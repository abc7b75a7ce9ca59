#include "worker/runtime/comm/roll_call/roll_call.h"
#include "worker/runtime/throw_error.h"
#include <ddprun/collectives.h>

#include <fmt/format.h>

namespace ddprun {

void monitored_barrier(const Group& group, std::optional<std::chrono::milliseconds> timeout) {
  c10d::ProcessGroup& process_group = *group.process_group();
  const auto store = process_group.getStore();
  if (!store)
    throw Exception(ErrorCode::kConfig, "monitored_barrier: the group was made without a store; give it one");
  const auto prefix = [](std::int64_t call) { return fmt::format("monitored_barrier/{}", call); };
  const std::int64_t call = store->add(fmt::format("monitored_barrier/calls/{}", group.rank()), 1);
  const auto limit = timeout.value_or(process_group.getDefaultBackend()->getBackendOptions()->timeout);
  const runtime::RollCall roll{
      .store = *store, .prefix = prefix(call), .rank = group.rank(), .size = group.size(), .timeout = limit};
  const auto came = runtime::call_roll(
      roll, "", [](const std::vector<std::string>&) -> Result<std::string> { return std::string(); });
  if (!came) runtime::throw_error(came.error().with("monitored_barrier"));
  // All ranks are here, and so past every earlier call: nobody reads any more what was said at it. Of a call that
  // failed it stays until now, for a rank that comes to it later.
  for (std::int64_t past = call - 1; past > 0; --past) {
    const std::string mine = fmt::format("{}/{}", prefix(past), group.rank());
    if (!store->check({mine})) break;
    store->deleteKey(mine);
    if (group.rank() == 0) store->deleteKey(prefix(past) + "/answer");
  }
}

}  // namespace ddprun
