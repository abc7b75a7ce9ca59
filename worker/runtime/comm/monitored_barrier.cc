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
  // Who is here has passed the barrier before, and so have all: nobody reads what this rank said at it, nor
  // the answer of the one before that.
  const auto forget = [&](std::int64_t past, const std::string& what) {
    if (past > 0) store->deleteKey(fmt::format("{}/{}", prefix(past), what));
  };
  forget(call - 2, std::to_string(group.rank()));
  if (group.rank() == 0) forget(call - 2, "answer");
  const auto limit = timeout.value_or(process_group.getDefaultBackend()->getBackendOptions()->timeout);
  const runtime::RollCall roll{
      .store = *store, .prefix = prefix(call), .rank = group.rank(), .size = group.size(), .timeout = limit};
  const auto came = runtime::call_roll(
      roll, "", [](const std::vector<std::string>&) -> Result<std::string> { return std::string(); });
  if (!came) runtime::throw_error(came.error().with("monitored_barrier"));
}

}  // namespace ddprun
