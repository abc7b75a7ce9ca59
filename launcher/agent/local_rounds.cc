#include "launcher/agent/local_rounds.h"

#include "launcher/agent/node_translation.h"
#include "rendezvous/membership/auth.h"
#include "rendezvous/membership/own_addresses.h"

#include <boost/asio/ip/address.hpp>

#include <chrono>
#include <utility>
#include <variant>

namespace ddprun::launcher {
namespace {

constexpr membership::MemberId kThisNode{1};
// Job and member stand still and go on together, so that neither may give the other up.
constexpr membership::Timing kNobodyIsSilent{.heartbeat = std::chrono::hours(24 * 365)};

TimePoint now() { return BootClock::now(); }

}  // namespace

Result<std::unique_ptr<RoundSource>> LocalRounds::open(boost::asio::io_context& io, const Plan& plan,
                                                       membership::Listener& listener, Logger& logger) {
  const Result<std::string> secret = membership::load_secret(plan.options.secret);
  if (!secret) return secret.error();
  store::StoreServerOptions options;
  options.at = plan.meeting;
  options.reserved_descriptors = [&listener] { return listener.reserved_descriptors(); };
  Result<std::unique_ptr<store::StoreServer>> store = store::StoreServer::open(io, options, logger);
  if (!store) return store.error();
  if (!secret->empty()) {
    (*store)->set_address_filter([](const boost::asio::ip::address& address) {
      return address.is_loopback() || membership::is_this_machine({address.to_string()});
    });
  } else if (membership::is_reached_by_others(options.at)) {
    logger.warn("{}", membership::no_secret_at((*store)->port(), plan.options.run_id));
  }
  return std::unique_ptr<RoundSource>(new LocalRounds(io, plan, listener, logger, std::move(*store)));
}

LocalRounds::LocalRounds(boost::asio::io_context& io, const Plan& plan, membership::Listener& listener,
                         Logger& logger, std::unique_ptr<store::StoreServer> store)
    : plan_(plan),
      listener_(listener),
      logger_(logger),
      store_(std::move(store)),
      job_(plan.options, kNobodyIsSilent, now(), {}),
      member_(kNobodyIsSilent, now()),
      wake_(io) {}

void LocalRounds::tell(const Action& action, const membership::NodeFailure& failure) {
  if (std::exchange(has_joined_, true)) return tell_member(*this, action, failure);
  perform(job_.joined(
      {.id = kThisNode, .host = plan_.host.hostname, .local_world_size = plan_.local_world_size}, now()));
  perform(member_.connected(now()));
}

void LocalRounds::workers_failed(const membership::NodeFailure& failure) {
  perform(member_.workers_failed(failure, now()));
}
void LocalRounds::workers_succeeded() { perform(member_.workers_succeeded(now())); }
void LocalRounds::workers_stopped() { perform(member_.workers_stopped(now())); }
// A lone node leaves nobody, and its supervisor ends by itself: the end of the job, which came first, would say nothing
// of who failed before.
void LocalRounds::leave(int /*signal*/) {}

void LocalRounds::perform(const membership::MemberActions& actions) {
  for (const auto& action : actions) std::visit([this](const auto& what) { act(what); }, action);
}

void LocalRounds::act(const membership::SendStatus& send) {
  perform(job_.status(kThisNode, send.status, now()));
}

void LocalRounds::act(membership::RoundBegins begins) {
  begins.round.master_addr = plan_.meeting.host;
  begins.round.master_port = store_->port();
  listener_.heard(begins);
}

void LocalRounds::perform(const membership::JobActions& actions) {
  for (const auto& action : actions) std::visit([this](const auto& what) { act(what); }, action);
  wake_.set_at(job_.next_wake(now()), [this] { perform(job_.tick(now())); });
}

void LocalRounds::act(const membership::SendOrder& send) { perform(member_.order(send.order, now())); }

}  // namespace ddprun::launcher
