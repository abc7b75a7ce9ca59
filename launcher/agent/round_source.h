#pragma once

#include "launcher/agent/supervisor_events.h"
#include "launcher/output/lost_output.h"
#include "launcher/plan/plan.h"
#include "launcher/report/look_desk.h"
#include "rendezvous/membership/member.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace ddprun::launcher {

/// Where the next round comes from, whether there is one after a failure, and who else must hear of that: a
/// membership::Job behind a connection, or for one node in this very process. What it says goes to a
/// membership::Listener, also from within the calls below.
class RoundSource {
 public:
  virtual ~RoundSource() = default;

  /// Takes the supervisor's JoinRound, PublishFailure (with `failure`), PublishLeaving and PublishSuccess.
  virtual void tell(const Action& action, const membership::NodeFailure& failure) = 0;
  /// Asks for the whole job to be drained. False: nobody else is to be asked, this node decides.
  virtual bool drain() { return false; }
  /// Asks the other nodes what they see of their ranks.
  virtual Asked ask_to_look(std::uint64_t number, LookKind kind) {
    return static_cast<void>(number), static_cast<void>(kind), Asked::kNobody;
  }
  virtual void answer_look(LookAnswer answer) { static_cast<void>(answer); }
  /// Takes whole lines for the console of the coordinator. False: that is here.
  virtual bool send_lines(bool is_stderr, std::string_view block) {
    return static_cast<void>(is_stderr), static_cast<void>(block), false;
  }
  /// Ends our part; nothing is pending on the io_context once `on_closed` is called, which may be from
  /// within.
  virtual void close(const Finish& finish, std::function<void()> on_closed) = 0;
  /// While `close` waits for others: shortens that. False: it waits for nobody.
  virtual bool hurry() { return false; }
  /// What was given to `send_lines` and not taken, once all is closed.
  [[nodiscard]] virtual std::optional<LostOutput> lost_output() const { return std::nullopt; }
};

}  // namespace ddprun::launcher
