#include "tests/integration/membership/loopback_world.h"

namespace ddprun::membership::testing {

LoopbackWorld::LoopbackWorld(const JobSpec& wanted, const Timing& timing, const std::string& job_secret)
    : spec(wanted), secret(job_secret) {
  coordinator =
      Coordinator::open(io, {.at = {.host = "127.0.0.1"}, .spec = spec, .timing = timing, .secret = secret},
                        *logger)
          .value();
}

MemberOptions LoopbackWorld::fitting(const std::string& name) const {
  return {.host = "127.0.0.1",
          .port = coordinator->port(),
          .spec = spec,
          .node = {.host = name, .address = {}, .local_world_size = LocalWorldSize(2)},
          .secret = secret,
          .join_timeout = std::chrono::seconds(2),
          .rejoin_timeout = std::chrono::seconds(1)};
}

LoopbackNode& LoopbackWorld::join(const MemberOptions& options) {
  nodes.push_back(std::make_unique<LoopbackNode>());
  nodes.back()->member = Member::open(io, options, *nodes.back());
  return *nodes.back();
}

}  // namespace ddprun::membership::testing
