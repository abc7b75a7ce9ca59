#pragma once

#include "launcher/agent/round_source.h"
#include "rendezvous/base/alarm.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/result.h"
#include "rendezvous/membership/restart_policy.h"
#include "rendezvous/store/server.h"

#include <boost/asio/io_context.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ddprun::launcher {

/// The rounds of a job on this node alone: what a coordinator is to several. A join closes a round at once, with a
/// fresh key space in the store; after a failure the restart policy is asked first, and may end the job.
class LocalRounds final : public RoundSource {
 public:
  /// Opens the store: with a secret for this machine alone, on which all workers are.
  /// Errors  kUnavailable when its port is taken; those of load_secret().
  static Result<std::unique_ptr<RoundSource>> open(boost::asio::io_context& io, const Plan& plan,
                                                   Listener& listener, Logger& logger);

  void tell(const Action& action, const membership::NodeFailure& failure) override;
  void close(const Finish&, std::function<void()> on_closed) override {
    back_off_.close();
    store_->close();
    on_closed();
  }

 private:
  LocalRounds(boost::asio::io_context& io, const Plan& plan, Listener& listener, Logger& logger,
              std::unique_ptr<store::StoreServer> store);
  void follow(const membership::NodeFailure& failure);
  void begin_round();

  const Plan& plan_;
  Listener& listener_;
  Logger& logger_;
  std::unique_ptr<store::StoreServer> store_;
  membership::RestartPolicy policy_;
  std::optional<membership::NodeFailure> failure_;  ///< of the generation that is over
  std::string restart_cause_;                       ///< of the round that begins next
  Generation generation_;                           ///< the last
  TimePoint began_at_{};
  Alarm back_off_;
};

}  // namespace ddprun::launcher
