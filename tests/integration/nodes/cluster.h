#pragma once

#include "tests/support/launched.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::testing {

/// A port that was free a moment ago, and that the kernel gives to no outgoing connection: all nodes must be
/// told the same one beforehand.
std::string free_port();

/// Waits until somebody listens there: then the node that was started first owns the coordinator.
void wait_until_served(const std::string& port);

/// Checks that `stranger` is refused with a sentence that `coordinator` says as well;
/// ends the coordinator.
void check_refused(Launched& stranger, Launched& coordinator, const std::string& sentence);

/// Several ddprun processes on one machine, as several nodes of a job, and what they have in common.
struct Cluster {
  std::string nnodes;
  std::string script;  ///< of /bin/sh, in each worker
  std::string port = free_port();
  std::vector<std::string> flags{};
  std::string run_id = "job";
  std::string nproc = "2";
  std::map<std::string, std::string> environment{};

  [[nodiscard]] std::unique_ptr<Launched> start_dynamic(const std::string& name = {}) const;
  [[nodiscard]] std::unique_ptr<Launched> start_static(int node_rank) const;

 private:
  [[nodiscard]] std::unique_ptr<Launched> start(std::vector<std::string> arguments) const;
};

}  // namespace ddprun::testing
