#pragma once

#include "launcher/agent/supervisor.h"
#include "launcher/output/lost_output.h"
#include "launcher/plan/plan.h"
#include "launcher/report/look_desk.h"
#include "launcher/report/outcome.h"
#include "rendezvous/base/error.h"
#include "rendezvous/membership/types.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// Where the next round comes from, whether there is one after a failure, and who else must hear of that: the
/// coordinator, or for one node LocalRounds. Listener calls come from the io_context or from within the calls
/// below.
class RoundSource {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void round_begins(const membership::Round& round) = 0;
    /// Who is there and who is waited for, for people.
    virtual void waiting(const std::string& text) { static_cast<void>(text); }
    /// Another generation begins, or will, because of `cause`, where that is a worker.
    virtual void restarting(const membership::Restart& restart, const std::optional<RemoteCause>& cause) {
      static_cast<void>(restart), static_cast<void>(cause);
    }
    /// What else concerns the supervisor: another node stopped the round, the lease or the rendezvous is
    /// lost.
    virtual void heard(const Event& event) = 0;
    /// Workers may live until then, and no guard lets them live longer; TimePoint::max(): for ever, or there
    /// are none.
    virtual void lease_held(TimePoint until) { static_cast<void>(until); }
    /// Lines of another node's workers, for our console.
    virtual void remote_lines(ConnectionId connection, const std::string& node, bool is_stderr,
                              std::string_view text, std::uint64_t missing_before) {
      static_cast<void>(connection), static_cast<void>(node), static_cast<void>(is_stderr);
      static_cast<void>(text), static_cast<void>(missing_before);
    }
    /// Lines given to `send_lines` that will reach nobody.
    virtual void lines_back(bool is_stderr, std::string_view text, std::uint64_t missing_before) {
      static_cast<void>(is_stderr), static_cast<void>(text), static_cast<void>(missing_before);
    }
    /// `ddprun why` or `ddprun ps --watch` of another node: `answer_look`.
    virtual void look_wanted(std::uint64_t number, std::size_t most_bytes, LookKind kind) {
      static_cast<void>(number), static_cast<void>(most_bytes), static_cast<void>(kind);
    }
    /// What another node sees, after `ask_to_look`.
    virtual void look_answered(const LookAnswer& answer) { static_cast<void>(answer); }
    /// What this process may still have to open: who connects to our port does not get these.
    [[nodiscard]] virtual std::size_t reserved_descriptors() const { return 0; }
    /// The job is over everywhere, well (0) or not, because of `cause`, where that is a worker.
    virtual void job_ended(const membership::JobEnd& end, const std::optional<RemoteCause>& cause) = 0;
  };

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
