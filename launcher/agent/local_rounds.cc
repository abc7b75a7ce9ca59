#include "launcher/agent/local_rounds.h"

#include "launcher/agent/job_settings.h"
#include "rendezvous/membership/auth.h"
#include "rendezvous/membership/own_addresses.h"

#include <boost/asio/ip/address.hpp>
#include <fmt/format.h>

#include <utility>

namespace ddprun::launcher {

Result<std::unique_ptr<RoundSource>> LocalRounds::open(boost::asio::io_context& io, const Plan& plan,
                                                       Listener& listener, Logger& logger) {
  const Result<std::string> secret =
      membership::load_secret(plan.options.rdzv_secret_file, plan.host.job_secret);
  if (!secret) return secret.error();
  store::StoreServerOptions options;
  options.host = plan.meeting.host;
  options.addresses = plan.meeting.addresses;
  options.port = plan.meeting.port;
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
  return std::unique_ptr<RoundSource>(new LocalRounds(io, plan, listener, logger, std::move(*store)));
}

LocalRounds::LocalRounds(boost::asio::io_context& io, const Plan& plan, Listener& listener, Logger& logger,
                         std::unique_ptr<store::StoreServer> store)
    : plan_(plan),
      listener_(listener),
      logger_(logger),
      store_(std::move(store)),
      policy_(restart_policy_options(plan)),
      back_off_(io) {}

void LocalRounds::tell(const Action& action, const membership::NodeFailure& failure) {
  if (std::holds_alternative<PublishFailure>(action)) failure_ = failure;
  if (std::holds_alternative<PublishSuccess>(action)) listener_.job_ended({}, std::nullopt);
  if (!std::holds_alternative<JoinRound>(action)) return;
  if (!failure_) return begin_round();
  follow(*std::exchange(failure_, std::nullopt));
}

void LocalRounds::follow(const membership::NodeFailure& failure) {
  RemoteCause cause;
  cause.worker.rank = failure.rank.value();  // a failure of no worker is final, and asks for nothing
  cause.generation = generation_;
  cause.is_here = true;
  const TimePoint now = BootClock::now();
  const membership::RestartDecision decision = policy_.decide(now - began_at_, now);
  if (!decision.restart) {
    const std::string why = membership::refusal_of(decision, failure.what);
    logger_.info("the job ends: {}", why);
    return listener_.job_ended({.exit_code = failure.exit_code, .why = why}, cause);
  }
  restart_cause_ = membership::explain(failure.what, failure.diagnosis);
  logger_.info("{}: {}", decision.why, restart_cause_);
  listener_.restarting(membership::restart_of(decision, policy_.restart_count(), restart_cause_), cause);
  if (decision.delay == Duration::zero()) return begin_round();
  back_off_.set_after(decision.delay, [this] { begin_round(); });
}

void LocalRounds::begin_round() {
  membership::Round round = single_node_round(plan_, store_->port());
  generation_ = Generation(generation_.value() + 1);
  round.seat.generation = generation_;
  round.seat.restart_count = policy_.restart_count();
  round.seat.restarts_used = policy_.restart_count();
  round.restart_cause = restart_cause_;
  began_at_ = BootClock::now();
  store_->begin_generation();
  listener_.round_begins(round);
}

}  // namespace ddprun::launcher
