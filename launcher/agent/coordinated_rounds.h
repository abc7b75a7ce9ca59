#pragma once

#include "launcher/agent/round_source.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/result.h"
#include "rendezvous/membership/rendezvous.h"

#include <boost/asio/io_context.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::launcher {

/// The rounds of a job of several nodes: those of the coordinator, which runs here or elsewhere, as meeting_of()
/// (plan/meeting.h) has decided.
class CoordinatedRounds final : public RoundSource, private membership::Listener {
 public:
  /// Errors  kUnavailable: this node has to run the coordinator and the port is taken. kUsage: the secret.
  static Result<std::unique_ptr<RoundSource>> open(boost::asio::io_context& io, const Plan& plan,
                                                   RoundSource::Listener& listener, Logger& logger);

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
  CoordinatedRounds(const Plan& plan, RoundSource::Listener& listener) : plan_(plan), listener_(listener) {}

  void on_restart(const membership::Restart& restart) override;
  void on_waiting(const std::string& text) override { listener_.waiting(text); }
  void on_round_begins(const membership::Round& round) override;
  void on_round_stopped(const std::string& why) override;
  void on_lease_lost(const std::string& why) override;
  void on_lease(TimePoint until) override { listener_.lease_held(until); }
  void on_look_wanted(const membership::LookRequest& request) override {
    listener_.look_wanted(request.number, request.most_bytes, request.kind);
  }
  void on_look_answer(const LookAnswer& answer) override { listener_.look_answered(answer); }
  void on_lines_back(const membership::LogLines& lines) override;
  void on_job_ended(const membership::JobEnd& end) override;
  void on_rendezvous_lost(const Error& error) override;
  [[nodiscard]] std::optional<RemoteCause> place(const std::optional<membership::NodeFailure>& failure) const;

  const Plan& plan_;
  RoundSource::Listener& listener_;
  std::unique_ptr<membership::Rendezvous> rendezvous_;
  std::optional<NodeRank> node_rank_;  ///< in the last round
  Generation generation_;              ///< of it, as the coordinator counts
  membership::Restart last_restart_;
  int signal_ = 0;
};

}  // namespace ddprun::launcher
