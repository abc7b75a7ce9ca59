#pragma once

#include "launcher/doctor/hosts.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/base/ids.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/name_lookup.h"
#include "rendezvous/base/result.h"

#include <boost/asio/io_context.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ddprun::launcher {

struct MeetingOptions {
  ListenAt at;
  std::string endpoint;     ///< for people
  std::string own_address;  ///< of this machine, as the others reach it; for people
  int hosts = 2;
  Duration timeout{};  ///< for all to come
  std::string secret;  ///< empty: none
};

/// Why a host cannot be one of those that have come; none: it can. Pure.
std::optional<std::string> why_not_seated(const MeetingFacts& meeting, const SeenHost& host);

/// Where hosts that are examined together meet: on a port as a job's coordinator, with its handshake. Waits for all
/// of them, or until the time is over; has them probe each other, step by step; makes the page, and gives it to
/// each.
///
/// Bounds    a host that says nothing for twelve seconds while it should is given up; who is none of the hosts has ten
///           seconds, as at a coordinator.
/// End       by itself, when all have been told the page or have left: nothing is pending on the io_context then.
/// Lifetime  the io_context and the logger outlive it. The destructor closes all.
class HostsMeeting {
 public:
  /// Errors  kUnavailable: the port cannot be had.
  static Result<std::unique_ptr<HostsMeeting>> open(boost::asio::io_context& io, MeetingOptions options,
                                                    Logger& logger);
  virtual ~HostsMeeting() = default;

  /// Called once, when it has ended by itself.
  virtual void set_on_over(std::function<void()> on_over) = 0;
};

}  // namespace ddprun::launcher
