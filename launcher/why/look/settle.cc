#include "launcher/why/look/settle.h"

#include "launcher/why/look/proc_look.h"

#include <utility>
#include <vector>

namespace ddprun::launcher::why {

bool has_ranks(std::string_view phase) { return phase == "running" || phase == "waiting"; }

JobPicture picture_of(const PublishedJob& state, pid_t launcher, std::string command) {
  return {.tag = state.tag,
          .launcher = launcher,
          .command = std::move(command),
          .generation = state.restart_count,
          .phase = state.phase,
          .world_size = state.world_size,
          .ranks = {}};
}

std::vector<RankTarget> targets_of(const PublishedJob& state) {
  std::vector<RankTarget> targets;
  if (state.world_size == 0) return targets;
  int local = 0;
  for (const pid_t pid : state.workers) {
    targets.push_back({.rank = state.base_rank + local,
                       .local_rank = local,
                       .pid = pid,
                       .started = pid == 0 ? 0 : start_of(pid)});
    ++local;
  }
  return targets;
}

void settle(JobPicture& picture, const std::optional<PublishedJob>& now) {
  picture.phase = now ? now->phase : "ending";
  picture.awaits = now ? now->awaits : std::string();
  if (now && now->restart_count != picture.generation) picture.phase = "restarting";
  for (RankFacts& rank : picture.ranks) {
    const auto index = static_cast<std::size_t>(rank.local_rank);
    const bool is_reaped = now && index < now->workers.size() && now->workers[index] == 0;
    rank.ended_with_0 = rank.pid == 0 && is_reaped && has_ranks(picture.phase);
  }
}

void settle(JobPicture& picture) { settle(picture, parse_job_state(read_job_state(picture.launcher))); }

void see_launcher_connections(JobPicture& picture) {
  if (picture.ranks.empty()) return;
  std::vector<Connection> connections = tcp_connections(picture.launcher);
  std::erase_if(connections, [](const Connection& connection) { return !connection.is_unanswered(); });
  picture.ranks.front().launcher_connections = std::move(connections);
}

}  // namespace ddprun::launcher::why
