#include "launcher/agent/coordinated_rounds.h"

#include "launcher/agent/job_settings.h"
#include "launcher/agent/node_translation.h"
#include "launcher/text/text.h"
#include "rendezvous/base/endpoint.h"
#include "rendezvous/base/env_contract.h"
#include "rendezvous/membership/auth.h"

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <utility>

namespace ddprun::launcher {
namespace {

// For the other nodes, beyond the time they give their workers.
constexpr Duration kFarewell = std::chrono::seconds(5);

/// A clock may count in less than nanoseconds.
std::chrono::system_clock::time_point wall_time(std::chrono::nanoseconds since_epoch) {
  return std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(since_epoch));
}

Result<membership::RendezvousOptions> rendezvous_options(const Plan& plan) {
  const Options& options = plan.options;
  Result<std::string> secret = membership::load_secret(options.rdzv_secret_file, plan.host.job_secret);
  if (!secret) return secret.error();
  membership::RendezvousOptions result;
  const MeetingPlace& meeting = plan.meeting;
  result.place = meeting.coordinator;
  result.host = meeting.host;
  result.addresses = meeting.addresses;
  result.port = meeting.port;
  result.spec = {.run_id = plan.run_id,
                 .min_nodes = options.min_nodes,
                 .max_nodes = options.max_nodes,
                 .max_restarts = options.max_restarts,
                 .max_restarts_window = options.max_restarts_window};
  result.timing = options.rdzv_conf.timing;
  result.node = {.host = options.local_addr.empty() ? plan.host.hostname : options.local_addr,
                 .address = {},
                 .local_world_size = plan.local_world_size,
                 .role = options.role};
  result.node.pinned = meeting.node_rank;
  result.secret = std::move(*secret);
  return result;
}

RemoteCause remote_cause(const membership::NodeFailure& failure) {
  RemoteCause cause;
  cause.worker.rank = failure.rank.value_or(Rank());
  cause.worker.local_rank = failure.local_rank;
  cause.worker.pid = failure.pid;
  cause.worker.end_kind = EndKind::kRootCause;
  cause.worker.error_file = failure.error_file;
  if (failure.victim) cause.victim.emplace().rank = *failure.victim;
  (cause.victim ? *cause.victim : cause.worker).stderr_tail = failure.stderr_tail;
  if (failure.code) cause.worker.status = ExitStatus::exited(*failure.code);
  if (failure.signal != 0) cause.worker.status = ExitStatus::killed(failure.signal);
  const std::chrono::nanoseconds started(failure.started);
  const std::chrono::nanoseconds ended(failure.ended);
  cause.worker.started_wall = wall_time(started);
  cause.worker.ended_wall = wall_time(ended);
  cause.worker.ended_at = cause.worker.started_at + (ended - started);
  cause.host = failure.host;
  cause.what = failure.what;
  cause.generation = failure.generation;
  cause.final_because = failure.final_because;
  cause.account = {failure.diagnosis, failure.error_message, failure.error_stack, {}};
  if (failure.is_traceback) {
    for (const std::string_view line : split_lines(failure.stderr_tail))
      cause.account.traceback.emplace_back(line);
  }
  return cause;
}

}  // namespace

Result<std::unique_ptr<RoundSource>> CoordinatedRounds::open(boost::asio::io_context& io, const Plan& plan,
                                                             RoundSource::Listener& listener,
                                                             Logger& logger) {
  Result<membership::RendezvousOptions> options = rendezvous_options(plan);
  if (!options) return options.error();
  options->reserved_descriptors = [&listener] { return listener.reserved_descriptors(); };
  std::unique_ptr<CoordinatedRounds> rounds(new CoordinatedRounds(plan, listener));
  auto rendezvous = membership::Rendezvous::open(io, *options, *rounds, logger);
  if (!rendezvous) return rendezvous.error();
  rounds->rendezvous_ = std::move(*rendezvous);
  if (options->port.value() == 0) {
    listener.waiting(
        fmt::format("the nodes meet at {0} port {1}, which the kernel chose: the others join with "
                    "--rdzv-endpoint {0}:{1}",
                    to_string(Endpoint{options->host, std::nullopt}), rounds->rendezvous_->port()));
  }
  rounds->rendezvous_->set_log_sink(
      [&listener](ConnectionId connection, const std::string& node, const membership::LogLines& lines) {
        listener.remote_lines(connection, node, lines.is_stderr, lines.text, lines.dropped_before);
      });
  return std::unique_ptr<RoundSource>(std::move(rounds));
}

void CoordinatedRounds::tell(const Action& action, const membership::NodeFailure& failure) {
  if (const auto* const leaving = std::get_if<PublishLeaving>(&action)) signal_ = leaving->signal;
  tell_member(rendezvous_->member(), action, failure);
}

void CoordinatedRounds::close(const Finish& finish, std::function<void()> on_closed) {
  const int signal = signal_ != 0 ? signal_ : SIGTERM;
  // To finish is to say that no worker is alive.
  if (!finish.leaves_survivors) tell(finish, {});
  membership::JobEnd end{
      .exit_code = membership::exit_code_of_leaving(signal),
      .why = fmt::format("node {}, which runs the coordinator, stopped", plan_.host.hostname)};
  if (!finish.why.empty())
    end = {.exit_code = finish.exit_code,
           .why = membership::placed(finish.why, "node " + plan_.host.hostname)};
  rendezvous_->close(end, plan_.options.shutdown_timeout + kFarewell, std::move(on_closed));
}

bool CoordinatedRounds::send_lines(bool is_stderr, std::string_view block) {
  if (rendezvous_->has_coordinator()) return false;
  rendezvous_->member().send_lines(is_stderr, block);
  return true;
}

std::optional<LostOutput> CoordinatedRounds::lost_output() const {
  const std::size_t bytes = rendezvous_->member().untaken_bytes();
  if (bytes == 0 || !plan_.options.log_funnel) return std::nullopt;
  return LostOutput{"the coordinator's console", bytes, "the coordinator did not take them"};
}

void CoordinatedRounds::on_lines_back(const membership::LogLines& lines) {
  listener_.lines_back(lines.is_stderr, lines.text, lines.dropped_before);
}

void CoordinatedRounds::on_round_begins(const membership::Round& round) {
  node_rank_ = round.seat.node_rank;
  generation_ = round.seat.generation;
  membership::Round with_cause = round;
  if (last_restart_.restart_count == round.seat.restart_count) with_cause.restart_cause = last_restart_.why;
  listener_.round_begins(with_cause);
}

void CoordinatedRounds::on_round_stopped(const std::string& why) { listener_.heard(RoundStopped{why}); }

void CoordinatedRounds::on_lease_lost(const std::string& why) { listener_.heard(LeaseLost{why}); }

void CoordinatedRounds::on_restart(const membership::Restart& restart) {
  last_restart_ = restart;
  listener_.restarting(restart, place(restart.root_cause));
}

void CoordinatedRounds::on_job_ended(const membership::JobEnd& end) {
  listener_.job_ended(end, place(end.root_cause));
}

std::optional<RemoteCause> CoordinatedRounds::place(
    const std::optional<membership::NodeFailure>& failure) const {
  if (!failure) return std::nullopt;
  RemoteCause cause = remote_cause(*failure);
  cause.is_here = failure->node_rank == node_rank_ && failure->generation == generation_;
  return cause;
}

void CoordinatedRounds::on_rendezvous_lost(const Error& error) { listener_.heard(RendezvousLost{error}); }

}  // namespace ddprun::launcher
