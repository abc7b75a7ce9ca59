#include "launcher/agent/node_translation.h"
#include "launcher/agent/supervisor.h"
#include "rendezvous/base/signal_name.h"
#include "rendezvous/membership/restart_policy.h"
#include "tests/support/catch.h"
#include "tests/support/fake_clock.h"
#include "tests/support/transcript.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <map>
#include <optional>
#include <utility>
#include <variant>

// The transcripts of this folder are stories of one node: each command is something that happens, and below
// it stands everything the supervisor answers. Pids are 100 + local rank, and every generation adds 1000.

namespace ddprun::launcher {
namespace {

using ddprun::testing::TranscriptCommand;

std::string ranks(const std::vector<LocalRank>& workers) {
  std::string text;
  for (const LocalRank worker : workers) text += fmt::format(" {}", worker);
  return text;
}

std::string render(const JoinRound&, TimePoint) { return "join the next round"; }
std::string render(const SpawnWorkers&, TimePoint) { return "spawn all workers"; }
std::string render(const EndWorkers& action, TimePoint) {
  return fmt::format("{} to local ranks{}", signal_name(action.signal), ranks(action.workers));
}
std::string render(const SetDeadline& action, TimePoint now) {
  return fmt::format("{} deadline in {:.1f} s", to_string(action.deadline), to_seconds(action.at - now));
}
std::string render(const PublishFailure& action, TimePoint) {
  return fmt::format("publish failure: {}{}", action.why,
                     action.final_because.empty() ? "" : "; no restart will help");
}
std::string render(const PublishLeaving& action, TimePoint) {
  return fmt::format("publish leaving: {}", signal_name(action.signal));
}
std::string render(const PublishSuccess&, TimePoint) { return "publish success"; }
std::string render(const Sweep&, TimePoint) { return "sweep"; }
std::string render(const NameStuck& action, TimePoint) {
  return fmt::format("name where local ranks{} are stuck", ranks(action.workers));
}
std::string render(const Finish& action, TimePoint) {
  return fmt::format("finish with exit code {}{}", action.exit_code,
                     action.leaves_survivors ? ", with survivors" : "");
}

int signal_number(const std::string& name) {
  static const std::map<std::string, int> kNumbers{{"SIGINT", SIGINT},   {"SIGTERM", SIGTERM},
                                                   {"SIGKILL", SIGKILL}, {"SIGABRT", SIGABRT},
                                                   {"SIGSEGV", SIGSEGV}, {"SIGHUP", SIGHUP}};
  return kNumbers.at(name);
}

class Story {
 public:
  std::string interpret(const TranscriptCommand& command) {
    const std::string& verb = command.verb;
    if (verb == "job") return begin(command);
    if (verb == "round") {
      membership::Round round;
      round.seat.base_rank = Rank(command.number("base", 0));
      round.valid_until = clock_.now() + std::chrono::seconds(command.number("valid", 4));
      return happen(RoundBegins{round});
    }
    if (verb == "restart-granted") return happen(RestartGranted{});
    if (verb == "no-round")
      return happen(RendezvousLost{Error(ErrorCode::kUnavailable, "nobody answers at host:29500")});
    if (verb == "spawn") return spawn(command.number("rank", 0));
    if (verb == "spawn-all") return spawn_all();
    if (verb == "spawn-fails")
      return happen(
          SpawnFailed{.local_rank = rank(command),
                      .error = command.text("why", "program") == "machine"
                                   ? Error(ErrorCode::kOs, "cannot open a pipe: Too many open files")
                                   : Error(ErrorCode::kNotFound, "cannot run ./x: no such file")});
    if (verb == "exit")
      return happen(WorkerExited{.local_rank = rank(command),
                                 .status = ExitStatus::exited(command.number("code", 0)),
                                 .ending = ending(command)});
    if (verb == "killed")
      return happen(WorkerExited{.local_rank = rank(command),
                                 .status = ExitStatus::killed(signal_number(command.text("by"))),
                                 .ending = ending(command)});
    if (verb == "suspended") return happen(WorkersSuspended{{rank(command)}});
    if (verb == "signal")
      return happen(
          Signalled{.signal = signal_number(command.text("name")), .exit_code = command.number("code", 0)});
    const bool is_of_others = verb == "peer-fails" || verb == "job-ends" || verb == "lease-lost";
    if (is_of_others && !has_coordinator_) return "a node alone hears nothing of others\n";
    if (verb == "peer-fails") return happen(RoundStopped{"rank 9 exited with code 1 on node 1"});
    if (verb == "swept") return happen(Swept{command.text("but")});
    if (verb == "complete") return happen(JobEnded{});
    if (verb == "job-ends")
      return happen(JobEnded{{.exit_code = command.number("code", 0),
                              .why = "rank 9 exited with code 9 on node 1; the restart budget is spent"}});
    if (verb == "lease-lost") return happen(LeaseLost{"no word from the coordinator for 5.0 s"});
    if (verb == "tick") return tick(command);
    return fmt::format("unknown command {}\n", verb);
  }

 private:
  static LocalRank rank(const TranscriptCommand& command) { return LocalRank(command.number("rank", 0)); }

  // says=symptom, silence, doubtful or own: what it wrote is of a lost peer, of a silent one, of a lost loader, or an
  // exception of its own that is older than our signal by `ago` seconds.
  Ending ending(const TranscriptCommand& command) const {
    const std::string says = command.text("says");
    Ending ending;
    ending.is_own_failure = !says.empty() || command.verb == "exit";
    if (says == "symptom") ending.weight = Weight::kSymptom, ending.symptom = "lost a peer (closed)";
    if (says == "silence")
      ending.weight = Weight::kSymptom, ending.symptom = "waited in vain", ending.waited_in_vain = true;
    if (says == "doubtful") ending.weight = Weight::kDoubtful, ending.symptom = "its loader was killed";
    if (says == "own") ending.error = "ValueError: nan";
    if (const int ago = command.number("ago", 0)) ending.failed_at = clock_.now() - std::chrono::seconds(ago);
    return ending;
  }

  std::string begin(const TranscriptCommand& command) {
    SupervisorOptions options;
    options.local_world_size = LocalWorldSize(command.number("workers", 1));
    options.grace = std::chrono::seconds(command.number("grace", 30));
    options.blame_window = std::chrono::seconds(command.number("blame", 3));
    options.no_restart_exit_codes = {93};
    membership::JobSpec spec{.max_restarts = command.number("restarts", 0)};
    if (const int window = command.number("window", 0))
      spec.max_restarts_window = std::chrono::seconds(window);
    policy_.emplace(spec);
    failure_.reset();
    if (const int timeout = command.number("timeout", 0)) options.job_timeout = std::chrono::seconds(timeout);
    has_coordinator_ = command.text("coordinator") == "yes";
    options.has_peers = has_coordinator_;
    workers_ = options.local_world_size.value();
    supervisor_.emplace(options);
    return show(supervisor_->start(clock_.now()));
  }

  std::string spawn(int local_rank) {
    return happen(WorkerSpawned{.local_rank = LocalRank(local_rank), .pid = next_pid_ + local_rank});
  }

  std::string spawn_all() {
    std::string text;
    for (int local_rank = 0; local_rank < workers_; ++local_rank) text += spawn(local_rank);
    return text;
  }

  // Time passes; deadlines that it reaches are events.
  std::string tick(const TranscriptCommand& command) {
    clock_.advance(std::chrono::milliseconds(static_cast<int>(std::stod(command.text("s", "0")) * 1000)));
    std::string text;
    for (auto deadline = deadlines_.begin(); deadline != deadlines_.end();) {
      if (deadline->second > clock_.now()) {
        ++deadline;
        continue;
      }
      const DeadlineKind kind = deadline->first;
      deadline = deadlines_.erase(deadline);
      text += happen(expiry_of(kind));
    }
    return text;
  }

  std::string happen(const Event& event) {
    if (std::holds_alternative<RoundBegins>(event)) next_pid_ += 1000, began_at_ = clock_.now();
    return show(supervisor_->handle(event, clock_.now()));
  }

  // What the job answers a node alone that asks for another generation.
  std::string answer() {
    const PublishFailure failure = *std::exchange(failure_, std::nullopt);
    const membership::RestartDecision decision = policy_->decide(clock_.now() - began_at_, clock_.now());
    if (!decision.restart)
      return happen(
          JobEnded{{.exit_code = failure.exit_code, .why = membership::refusal_of(decision, failure.why)}});
    return fmt::format("answer: {}\n", decision.why) + happen(RestartGranted{});
  }

  std::string show(const Step& step) {
    std::string text;
    if (!step.story.empty() || step.from != step.to) {
      text = step.from == step.to
                 ? fmt::format("{}: {}\n", to_string(step.from), step.story)
                 : fmt::format("{}->{}: {}\n", to_string(step.from), to_string(step.to), step.story);
    }
    bool asks = false;
    for (const Action& action : step.actions) {
      if (const auto* const failure = std::get_if<PublishFailure>(&action)) failure_ = *failure;
      asks = asks || (std::holds_alternative<JoinRound>(action) && failure_ && !has_coordinator_);
      if (const auto* const set = std::get_if<SetDeadline>(&action)) deadlines_[set->deadline] = set->at;
      const bool is_refused = std::holds_alternative<Finish>(action) && !supervisor_->refusal().empty();
      text += fmt::format("  * {}{}\n",
                          std::visit([&](const auto& what) { return render(what, clock_.now()); }, action),
                          is_refused ? fmt::format("; refused restarts: {}", supervisor_->refusal()) : "");
    }
    return asks ? text + answer() : text;
  }

  testing::FakeClock clock_;
  std::optional<Supervisor> supervisor_;
  std::optional<membership::RestartPolicy> policy_;
  std::optional<PublishFailure> failure_;  // of the generation that is over
  TimePoint began_at_{};
  std::map<DeadlineKind, TimePoint> deadlines_;
  int workers_ = 1;
  bool has_coordinator_ = false;
  int next_pid_ = -900;
};

TEST_CASE("the supervisor's stories read as written") {
  testing::check_transcripts(std::getenv("DDPRUN_TRANSCRIPTS"), [] {
    auto story = std::make_shared<Story>();
    return [story](const TranscriptCommand& command) { return story->interpret(command); };
  });
}

}  // namespace
}  // namespace ddprun::launcher
