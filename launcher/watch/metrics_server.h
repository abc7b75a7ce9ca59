#pragma once

#include "launcher/why/desk/beside.h"
#include "rendezvous/base/endpoint.h"
#include "rendezvous/base/result.h"

#include <string>
#include <utility>

namespace ddprun::launcher::watch {

/// --metrics: answers GET /metrics with what it reads at that moment of the ranks of this launcher; nobody asks,
/// nothing is read. Up to 64 clients beside each other, each of whom has five seconds to ask and as many to be
/// answered; where more come, the oldest gives way.
///
/// Process  a fork of the launcher, called "metrics" (why/desk/beside.h). Destroyed: killed.
class MetricsServer {
 public:
  /// Without a host it is 127.0.0.1; port 0 is the kernel's choice. Errors kUsage: the host is no address; kOs:
  /// nobody may listen there.
  static Result<MetricsServer> start(const Endpoint& place, const std::string& command);

  /// "http://127.0.0.1:9400/metrics"
  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  MetricsServer(why::Beside process, std::string address)
      : process_(std::move(process)), address_(std::move(address)) {}

  why::Beside process_;
  std::string address_;
};

}  // namespace ddprun::launcher::watch
