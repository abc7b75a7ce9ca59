#pragma once

#include "launcher/doctor/hosts.h"
#include "launcher/doctor/probe.h"
#include "launcher/doctor/talk.h"
#include "rendezvous/base/alarm.h"
#include "rendezvous/base/gate.h"
#include "rendezvous/base/ids.h"
#include "rendezvous/membership/channel.h"
#include "rendezvous/membership/connector.h"
#include "rendezvous/membership/handshake.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ddprun::launcher {

struct VisitOptions {
  std::string host;  ///< where they meet
  Port port;
  std::string endpoint;  ///< the same, for people
  bool is_here = false;  ///< this process has the meeting as well
  int hosts = 2;
  std::optional<int> node_rank;
  Duration timeout{};  ///< to get there
  std::string secret;  ///< empty: none
  HostSheet sheet;
};

/// What comes of it: the page of all hosts, or why this one is alone.
struct VisitEnd {
  std::string page;  ///< empty: there is none
  bool is_wrong = true;
  std::string why;  ///< where there is no page
  std::string mend;
};

/// One host's part: goes to the meeting, tries again until its time is over, says what it is asked, probes whom it is
/// told to, and takes the page.
///
/// End       calls `on_end` once; nothing of it is pending then.
/// Lifetime  destroyed at any time; `target` outlives it.
class Visit {
 public:
  using OnEnd = std::function<void(VisitEnd)>;

  Visit(boost::asio::io_context& io, VisitOptions options, const ProbeTarget& target);
  void start(OnEnd on_end);

 private:
  void try_once();
  void try_again(const std::string& tried);
  void greet(boost::asio::ip::tcp::socket socket);
  void handle(const membership::Message& message);
  void go_on(const membership::Proof& proof) { channel_->send(proof); }
  void go_on(const membership::Welcome& welcome);
  void go_on(const membership::Refused& refused);
  void go_on(const Error& error);
  void answer(const doctor_talk::TellTime& asked);
  void answer(const doctor_talk::ProbeOne& asked);
  void answer(const doctor_talk::PagePart& part);
  template <class Other>
  void answer(const Other&) {
    stay_alone("it says something out of turn", "use one release of ddprun on all hosts");
  }
  void expect_word_within(Duration silence);
  void stay_alone(const std::string& why, const std::string& mend);
  void end(VisitEnd end);

  boost::asio::io_context& io_;
  VisitOptions options_;
  const ProbeTarget& target_;
  Alarm timer_;
  Alarm notice_;
  TimePoint began_{};
  bool has_said_ = false;
  Duration silence_{};
  std::string page_;
  std::unique_ptr<membership::Connector> connector_;
  std::optional<membership::AgentHandshake> handshake_;
  std::shared_ptr<membership::Channel> channel_;
  std::unique_ptr<ProbeCall> call_;
  OnEnd on_end_;
  Gate gate_;
};

}  // namespace ddprun::launcher
