#include "launcher/agent/local_rounds.h"

#include "launcher/agent/job_settings.h"
#include "rendezvous/membership/auth.h"
#include "rendezvous/membership/own_addresses.h"

#include <boost/asio/ip/address.hpp>

#include <utility>

namespace ddprun::launcher {

Result<std::unique_ptr<RoundSource>> LocalRounds::open(boost::asio::io_context& io, const Plan& plan,
                                                       Listener& listener, Logger& logger) {
  const Result<std::string> secret =
      membership::load_secret(plan.options.rdzv_secret_file, plan.host.job_secret);
  if (!secret) return secret.error();
  store::StoreServerOptions options;
  options.host = plan.master_addr;
  options.addresses = plan.master_addresses;
  options.port = plan.master_port;
  options.reserved_descriptors = [&listener] { return listener.reserved_descriptors(); };
  Result<std::unique_ptr<store::StoreServer>> store = store::StoreServer::open(io, options, logger);
  if (!store) return store.error();
  if (!secret->empty()) {
    (*store)->set_address_filter([](const boost::asio::ip::address& address) {
      return address.is_loopback() || membership::is_this_machine({address.to_string()});
    });
  } else if (membership::is_reached_by_others(options.host, options.addresses)) {
    logger.warn("{}", membership::no_secret_at((*store)->port(), plan.run_id));
  }
  return std::unique_ptr<RoundSource>(new LocalRounds(plan, listener, std::move(*store)));
}

void LocalRounds::tell(const Action& action, const NodeFailure&) {
  if (action.kind == ActionKind::kJoinRound) return join(action.restart_count);
  if (action.kind == ActionKind::kPublishSuccess) listener_.job_ended({}, std::nullopt);
}

void LocalRounds::join(int restart_count) {
  RoundInfo round = single_node_round(plan_, store_->port());
  round.generation = Generation(next_generation_++);
  round.restart_count = restart_count;
  round.restarts_used = restart_count;
  store_->begin_generation();
  listener_.round_closed(round, TimePoint::max());
}

}  // namespace ddprun::launcher
