#include "launcher/plan/meeting.h"

#include <fmt/format.h>

namespace ddprun::launcher {
namespace {

using membership::CoordinatorPlace;

constexpr Port kStaticPort{29500};
constexpr Port kDynamicPort{29400};

bool is_static(const Options& options) {
  const bool has_address = !options.rdzv_endpoint || options.node_rank.has_value();
  return options.rdzv_backend == RdzvBackend::kStatic && has_address && !options.is_elastic();
}

CoordinatorPlace place_of(const Options& options) {
  if (options.max_nodes == 1) return CoordinatorPlace::kHere;
  if (const std::optional<bool> is_host = options.rdzv_conf.is_host)
    return *is_host ? CoordinatorPlace::kHere : CoordinatorPlace::kElsewhere;
  if (!is_static(options)) return CoordinatorPlace::kIfOurs;
  return options.node_rank.value_or(0) == 0 ? CoordinatorPlace::kHere : CoordinatorPlace::kElsewhere;
}

Port usual_port(const Options& options) {
  if (options.max_nodes == 1) return Port(0);
  return is_static(options) ? kStaticPort : kDynamicPort;
}

}  // namespace

Result<MeetingPlace> meeting_of(const Options& options) {
  MeetingPlace meeting;
  meeting.coordinator = place_of(options);
  if (options.node_rank) meeting.node_rank = NodeRank(*options.node_rank);
  if (is_static(options)) meeting.node_rank = NodeRank(options.node_rank.value_or(0));
  const bool is_local =
      options.max_nodes == 1 && (options.standalone || options.rdzv_backend != RdzvBackend::kStatic);
  meeting.host = options.standalone ? "127.0.0.1" : options.master_addr;
  meeting.port = usual_port(options);
  if (!options.standalone && options.rdzv_endpoint) {
    const std::string typed = to_string(*options.rdzv_endpoint);
    if (!options.rdzv_endpoint->port && options.rdzv_backend == RdzvBackend::kStatic) {
      return usage_error(
          fmt::format("--rdzv-endpoint \"{}\": the port is missing; write {}:{}", typed, typed, kStaticPort));
    }
    meeting.host = options.rdzv_endpoint->host;
    meeting.port = options.rdzv_endpoint->port.value_or(meeting.port);
  } else if (!options.standalone && options.master_port) {
    meeting.port = Port(static_cast<std::uint16_t>(*options.master_port));
  }
  if (is_local && !options.local_addr.empty()) meeting.host = options.local_addr;
  return meeting;
}

Result<HostAddresses> look_up_meeting(const MeetingPlace& meeting, bool is_alone) {
  if (!is_alone && !membership::needs_addresses(meeting.coordinator, meeting.host)) return HostAddresses();
  Result<HostAddresses> found = look_up(meeting.host);
  if (found || meeting.coordinator == CoordinatorPlace::kHere) return found;
  return HostAddresses();  // not ours, then; the look-ups that follow say what is wrong
}

}  // namespace ddprun::launcher
