#pragma once

#include "launcher/agent/round_source.h"
#include "rendezvous/base/alarm.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/result.h"
#include "rendezvous/membership/job.h"
#include "rendezvous/membership/member_core.h"
#include "rendezvous/store/server.h"

#include <boost/asio/io_context.hpp>

#include <functional>
#include <memory>

namespace ddprun::launcher {

/// The rounds of a job on this node alone: the same Job and the same member as of several, which hear each other's
/// words without a connection between them.
class LocalRounds final : public RoundSource, private membership::MemberWords {
 public:
  /// Opens the store: with a secret for this machine alone, on which all workers are.
  /// Errors  kUnavailable when its port is taken; those of load_secret().
  static Result<std::unique_ptr<RoundSource>> open(boost::asio::io_context& io, const Plan& plan,
                                                   membership::Listener& listener, Logger& logger);

  void tell(const Action& action, const membership::NodeFailure& failure) override;
  void close(const Finish&, std::function<void()> on_closed) override {
    wake_.close();
    store_->close();
    on_closed();
  }

 private:
  LocalRounds(boost::asio::io_context& io, const Plan& plan, membership::Listener& listener, Logger& logger,
              std::unique_ptr<store::StoreServer> store);

  void workers_failed(const membership::NodeFailure& failure) override;
  void workers_succeeded() override;
  void workers_stopped() override;
  void leave(int signal) override;

  void perform(const membership::MemberActions& actions);
  void act(const membership::SendStatus& send);
  void act(const membership::ComeBack&) {}  // there is no connection to be lost
  void act(membership::RoundBegins begins);
  void act(const auto& event) { listener_.heard(event); }

  void perform(const membership::JobActions& actions);
  void act(const membership::SendOrder& send);
  void act(const membership::Expel&) {}
  void act(const membership::BeginGeneration&) { store_->begin_generation(); }
  void act(const membership::Note& note) { logger_.info("{}", note.text); }

  const Plan& plan_;
  membership::Listener& listener_;
  Logger& logger_;
  std::unique_ptr<store::StoreServer> store_;
  membership::Job job_;
  membership::MemberCore member_;
  bool has_joined_ = false;
  Alarm wake_;  ///< of the job
};

}  // namespace ddprun::launcher
