#include "rendezvous/membership/admission.h"

#include "rendezvous/base/printable.h"

#include <fmt/format.h>

namespace ddprun::membership {

std::string format_nnodes(int min_nodes, int max_nodes) {
  return min_nodes == max_nodes ? fmt::format("{}", max_nodes) : fmt::format("{}:{}", min_nodes, max_nodes);
}

std::optional<std::string> why_not_admitted(const Hello& hello, const AdmissionRules& rules) {
  const std::string node = name_of(hello.node);
  const JobSpec& spec = rules.spec;
  if (hello.version != kProtocolVersion) {
    return fmt::format(
        "{} speaks version {} of the agents' protocol, the coordinator version {}; use the same ddprun on "
        "all nodes",
        node, hello.version, kProtocolVersion);
  }
  if (hello.run_id != spec.run_id) {
    return fmt::format(
        "{} belongs to job \"{}\", but job \"{}\" is served here; give all nodes of a job one --rdzv-id, "
        "and every job its own endpoint",
        node, printable(hello.run_id, kMaxNameBytes), printable(spec.run_id, kMaxNameBytes));
  }
  if (hello.has_secret != rules.has_secret) {
    return hello.has_secret ? fmt::format(
                                  "{} has a job secret, the coordinator has none; give both the same "
                                  "--rdzv-secret-file (or "
                                  "DDPRUN_SECRET), or neither",
                                  node)
                            : fmt::format(
                                  "{} has no job secret, but the coordinator has one; give both the same "
                                  "--rdzv-secret-file "
                                  "(or DDPRUN_SECRET), or neither",
                                  node);
  }
  if (hello.is_control) return std::nullopt;
  if (hello.min_nodes != spec.min_nodes || hello.max_nodes != spec.max_nodes) {
    return fmt::format(
        "{} was started with --nnodes {}, the coordinator with --nnodes {}; give all nodes the same", node,
        format_nnodes(hello.min_nodes, hello.max_nodes), format_nnodes(spec.min_nodes, spec.max_nodes));
  }
  return std::nullopt;
}

}  // namespace ddprun::membership
