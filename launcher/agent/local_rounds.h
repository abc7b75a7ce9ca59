#pragma once

#include "launcher/agent/round_source.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/result.h"
#include "rendezvous/store/server.h"

#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <functional>
#include <memory>

namespace ddprun::launcher {

/// The rounds of a job on this node alone: every join closes a round at once, with a fresh key space in the
/// store.
class LocalRounds final : public RoundSource {
 public:
  /// Opens the store: with a secret for this machine alone, on which all workers are.
  /// Errors  kUnavailable when its port is taken; those of load_secret().
  static Result<std::unique_ptr<RoundSource>> open(boost::asio::io_context& io, const Plan& plan,
                                                   Listener& listener, Logger& logger);

  [[nodiscard]] bool decides_restarts() const override { return false; }
  void tell(const Action& action, const NodeFailure&) override;
  void close(const Action&, std::function<void()> on_closed) override {
    store_->close();
    on_closed();
  }

 private:
  LocalRounds(const Plan& plan, Listener& listener, std::unique_ptr<store::StoreServer> store)
      : plan_(plan), listener_(listener), store_(std::move(store)) {}
  void join(int restart_count);

  const Plan& plan_;
  Listener& listener_;
  std::unique_ptr<store::StoreServer> store_;
  std::uint32_t next_generation_ = 0;
};

}  // namespace ddprun::launcher
