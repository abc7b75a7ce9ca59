#include "launcher/agent/coordinated_rounds.h"

#include "launcher/agent/node_translation.h"
#include "rendezvous/base/endpoint.h"
#include "rendezvous/membership/auth.h"

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <utility>

namespace ddprun::launcher {
namespace {

// For the other nodes, beyond the time they give their workers.
constexpr Duration kFarewell = std::chrono::seconds(5);

Result<membership::RendezvousOptions> rendezvous_options(const Plan& plan) {
  const Options& options = plan.options;
  Result<std::string> secret = membership::load_secret(options.secret);
  if (!secret) return secret.error();
  membership::RendezvousOptions result;
  result.place = plan.meeting.coordinator;
  result.at = plan.meeting;
  result.spec = options;
  result.timing = options.rdzv_conf.timing;
  result.node = {.host = options.local_addr.empty() ? plan.host.hostname : options.local_addr,
                 .address = {},
                 .local_world_size = plan.local_world_size,
                 .role = options.role};
  result.node.pinned = plan.meeting.node_rank;
  result.secret = std::move(*secret);
  return result;
}

}  // namespace

Result<std::unique_ptr<RoundSource>> CoordinatedRounds::open(boost::asio::io_context& io, const Plan& plan,
                                                             membership::Listener& listener, Logger& logger) {
  const Result<membership::RendezvousOptions> options = rendezvous_options(plan);
  if (!options) return options.error();
  auto rendezvous = membership::Rendezvous::open(io, *options, listener, logger);
  if (!rendezvous) return rendezvous.error();
  if (options->at.port.value() == 0) {
    listener.heard(membership::Waiting{
        fmt::format("the nodes meet at {0} port {1}, which the kernel chose: the others join with "
                    "--rdzv-endpoint {0}:{1}",
                    to_string(Endpoint{options->at.host, std::nullopt}), (*rendezvous)->port())});
  }
  return std::unique_ptr<RoundSource>(new CoordinatedRounds(plan, std::move(*rendezvous)));
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

}  // namespace ddprun::launcher
