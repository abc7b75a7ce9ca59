#pragma once

#include "rendezvous/base/endpoint.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

#include <string>
#include <utility>

namespace ddprun::launcher::watch {

/// --metrics: answers GET /metrics with what it reads at that moment of the ranks of this launcher; nobody asks,
/// nothing is read. Up to 64 clients beside each other, each of whom has five seconds to ask and as many to be
/// answered; where more come, the oldest gives way.
///
/// Process  a fork of the launcher, called "metrics" (why/beside.h). Destroyed: killed.
class MetricsServer {
 public:
  /// Without a host it is 127.0.0.1; port 0 is the kernel's choice. Errors kUsage: the host is no address; kOs:
  /// nobody may listen there.
  static Result<MetricsServer> start(const Endpoint& place, const std::string& command);

  MetricsServer(MetricsServer&&) = default;
  MetricsServer& operator=(MetricsServer&&) = delete;
  ~MetricsServer();

  /// "http://127.0.0.1:9400/metrics"
  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  MetricsServer(UniqueFd pidfd, std::string address)
      : pidfd_(std::move(pidfd)), address_(std::move(address)) {}

  UniqueFd pidfd_;
  std::string address_;
};

}  // namespace ddprun::launcher::watch
