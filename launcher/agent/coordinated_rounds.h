#pragma once

#include "launcher/agent/round_source.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/result.h"
#include "rendezvous/membership/rendezvous.h"

#include <boost/asio/io_context.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace ddprun::launcher {

/// The rounds of a job of several nodes: those of the coordinator, which runs here or elsewhere, as meeting_of()
/// (plan/meeting.h) has decided.
class CoordinatedRounds final : public RoundSource {
 public:
  /// Errors  kUnavailable: this node has to run the coordinator and the port is taken. kUsage: the secret.
  static Result<std::unique_ptr<RoundSource>> open(boost::asio::io_context& io, const Plan& plan,
                                                   membership::Listener& listener, Logger& logger);

  void tell(const Action& action, const membership::NodeFailure& failure) override;
  bool drain() override { return rendezvous_->member().drain(); }
  Asked ask_to_look(std::uint64_t number, LookKind kind) override {
    return rendezvous_->member().ask_to_look(number, kind);
  }
  void answer_look(LookAnswer answer) override { rendezvous_->member().answer_look(std::move(answer)); }
  bool send_lines(bool is_stderr, std::string_view block) override;
  /// Where the coordinator runs here, it stays until the other nodes have left, but not for ever.
  void close(const Finish& finish, std::function<void()> on_closed) override;
  bool hurry() override { return rendezvous_->hurry(); }
  [[nodiscard]] std::optional<LostOutput> lost_output() const override;

 private:
  CoordinatedRounds(const Plan& plan, std::unique_ptr<membership::Rendezvous> rendezvous)
      : plan_(plan), rendezvous_(std::move(rendezvous)) {}

  const Plan& plan_;
  std::unique_ptr<membership::Rendezvous> rendezvous_;
  int signal_ = 0;
};

}  // namespace ddprun::launcher
