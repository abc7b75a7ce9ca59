#pragma once

#include "rendezvous/base/alarm.h"
#include "rendezvous/base/name_lookup.h"
#include "rendezvous/membership/coordinator.h"
#include "rendezvous/membership/member.h"

#include <boost/asio/io_context.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace ddprun::membership {

/// Who runs the coordinator.
enum class CoordinatorPlace {
  kHere,       ///< this node must: static rank 0
  kElsewhere,  ///< another node does
  kIfOurs,     ///< this node, if the host is one of its addresses and nobody on this machine has been faster
};

struct RendezvousOptions {
  CoordinatorPlace place = CoordinatorPlace::kIfOurs;
  ListenAt at;  ///< looked up where this node may run the coordinator; see needs_addresses()
  JobSpec spec;
  Timing timing;  ///< of the coordinator, where this node runs it; join and rejoin time-outs here too
  NodeFacts node;
  std::string secret;  ///< empty: none
};

/// Whether a node needs the addresses of the host: to tell whether one is its own, or to listen there.
bool needs_addresses(CoordinatorPlace place, const std::string& host);

/// One node's part in a job of several nodes: the member, and where the endpoint is here, the coordinator
/// with the store.
///
/// Lifetime  as of Member and Coordinator.
class Rendezvous {
 public:
  /// Errors  kUnavailable: the coordinator's port is taken (by something that is no coordinator of this job,
  ///         as RendezvousLost says a moment later, where the place is kIfOurs).
  static Result<std::unique_ptr<Rendezvous>> open(boost::asio::io_context& io,
                                                  const RendezvousOptions& options, Listener& listener,
                                                  Logger& logger);

  [[nodiscard]] Member& member() { return *member_; }
  /// Where the coordinator is reached: the kernel's choice, if the options left it that.
  [[nodiscard]] Port port() const { return port_; }
  [[nodiscard]] bool has_coordinator() const { return coordinator_ != nullptr; }
  /// Ends this node's part; none of its workers is alive. Where the coordinator is here, the job ends for all
  /// as `end` says (unless it has ended already), and the coordinator goes on until the other agents have
  /// heard it and left, at most for `patience`; for whom, the listener is told after a moment. Then nothing
  /// is pending on the io_context, and `on_closed` is called.
  void close(const JobEnd& end, Duration patience, std::function<void()> on_closed);
  /// While it closes: every agent is told the end now, and has a second to leave; asked again, it has none.
  /// Where the coordinator is elsewhere, what it has not taken is lost.
  /// False: it does not close, or has closed.
  bool hurry();

 private:
  Rendezvous(boost::asio::io_context& io, Listener& listener)
      : listener_(listener), timer_(io), notice_(io) {}

  void await_farewell(std::function<void()> on_closed);
  void end_farewell();
  void close_anyway();
  void close_coordinator();

  Listener& listener_;
  Alarm timer_;
  Alarm notice_;
  bool has_hurried_ = false;
  Port port_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<Member> member_;
  std::function<void()> on_closed_;
};

}  // namespace ddprun::membership
