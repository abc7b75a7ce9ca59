// The transcripts of this folder are stories of one job: each command is something that happens, and below it
// stands everything that the coordinator and the agents do about it, with the time. A heartbeat is 1 s, a
// silent node is given up after 5 s, and an agent that is not answered kills its workers after 4 s.

#include "tests/scenario/membership_stories/world.h"
#include "tests/support/catch.h"
#include "tests/support/transcript.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <memory>

namespace ddprun::membership::testing {
namespace {

using ddprun::testing::TranscriptCommand;

Duration seconds_of(const TranscriptCommand& command, const std::string& name, const std::string& otherwise) {
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::stod(command.text(name, otherwise))));
}

std::optional<NodeRank> rank_of(const TranscriptCommand& command) {
  const int rank = command.number("rank", -1);
  return rank < 0 ? std::nullopt : std::optional(NodeRank(rank));
}

class Story {
 public:
  std::string interpret(const TranscriptCommand& command) {
    if (command.verb == "job") return begin(command);
    if (!happen(command)) return fmt::format("unknown command {}\n", command.verb);
    return world_->take_lines();
  }

 private:
  std::string begin(const TranscriptCommand& command) {
    const std::string nnodes = command.text("nnodes", "1");
    const std::size_t colon = nnodes.find(':');
    JobSpec spec;
    spec.min_nodes = std::stoi(nnodes);
    spec.max_nodes = colon == std::string::npos ? spec.min_nodes : std::stoi(nnodes.substr(colon + 1));
    spec.max_restarts = command.number("restarts", 0);
    Timing timing;
    timing.join_timeout = seconds_of(command, "join", "600");
    timing.debounce = seconds_of(command, "debounce", "2");
    world_ = std::make_unique<World>(spec, timing);
    return {};
  }

  bool happen(const TranscriptCommand& command) {
    const std::string& verb = command.verb;
    const std::string node = command.text("node");
    if (verb == "join") {
      world_->join(node, LocalWorldSize(command.number("workers", 1)), rank_of(command));
    } else if (verb == "workers-fail") {
      world_->workers_fail(node, command.number("code", 1));
    } else if (verb == "workers-succeed") {
      world_->workers_succeed(node);
    } else if (verb == "slow") {
      world_->be_slow(node);
    } else if (verb == "workers-stopped") {
      world_->workers_stopped(node);
    } else if (verb == "sigterm") {
      world_->told_to_stop(node, SIGTERM);
    } else if (verb == "drain") {
      world_->drain(rank_of(command));
    } else if (verb == "cut") {
      world_->cut(node);
    } else if (verb == "hear-what-waits") {
      world_->hear_what_waits(node);
    } else if (verb == "mend") {
      world_->mend(node);
    } else if (verb == "crash") {
      world_->crash(node);
    } else if (verb == "power-off") {
      world_->power_off(node);
    } else if (verb == "reset") {
      world_->reset(node);
    } else if (verb == "pass") {
      world_->pass(seconds_of(command, "s", "0"));
    } else if (verb == "coordinator-stands-still") {
      world_->stand_still(seconds_of(command, "s", "0"));
    } else {
      return false;
    }
    return true;
  }

  std::unique_ptr<World> world_;
};

}  // namespace

TEST_CASE("the stories of membership read as written") {
  ddprun::testing::check_transcripts(std::getenv("DDPRUN_TRANSCRIPTS"), [] {
    auto story = std::make_shared<Story>();
    return [story](const TranscriptCommand& command) { return story->interpret(command); };
  });
}

}  // namespace ddprun::membership::testing
