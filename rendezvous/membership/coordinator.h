#pragma once

#include "rendezvous/base/log.h"
#include "rendezvous/base/name_lookup.h"
#include "rendezvous/base/result.h"
#include "rendezvous/membership/job.h"
#include "rendezvous/membership/messages.h"

#include <boost/asio/io_context.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace ddprun::membership {

/// Takes what workers of a node have written: `node` is its name, for people.
using LogSink = std::function<void(ConnectionId connection, const std::string& node, const LogLines& lines)>;

struct CoordinatorOptions {
  ListenAt at;
  JobSpec spec;
  Timing timing;
  std::string secret;                                 ///< empty: none
  std::function<std::size_t()> reserved_descriptors;  ///< as of StoreServerOptions
};

/// Who is in the world, on one TCP port together with the workers' store: a thin shell around Job.
///
/// Threads   none of its own: everything happens on the io_context's one thread.
/// Lifetime  the io_context and the logger outlive it. The destructor calls `close()`.
class Coordinator {
 public:
  /// Errors  kUnavailable: the port is in use or the host has no usable address.
  static Result<std::unique_ptr<Coordinator>> open(boost::asio::io_context& io,
                                                   const CoordinatorOptions& options, Logger& logger);
  virtual ~Coordinator() = default;

  [[nodiscard]] virtual Port port() const = 0;
  [[nodiscard]] virtual const Job& job() const = 0;

  /// Whether the job has ended and every agent has left.
  [[nodiscard]] virtual bool is_done() const = 0;
  /// Called once, when the job has ended and every agent has left (or has been silent for too long). It may
  /// close this coordinator, and must not destroy it.
  virtual void set_on_done(std::function<void()> on_done) = 0;

  /// Where --log-funnel of the nodes ends; without one, nowhere.
  virtual void set_log_sink(LogSink sink) = 0;

  /// Ends the job on all nodes, as Job::end_for_all does.
  virtual void end_for_all(const JobEnd& end) = 0;
  /// Tells the end to nodes whose workers live, too, as Job::end_at_once does.
  virtual void end_at_once() = 0;
  /// For whom it is not done yet, for people: "node 1 (b, 10.0.0.2)".
  [[nodiscard]] virtual std::string awaited() const = 0;
  /// Stops listening and closes every connection.
  virtual void close() = 0;
};

}  // namespace ddprun::membership
