#pragma once

#include "launcher/doctor/finding.h"
#include "rendezvous/base/clock.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

struct MachineFacts;

/// What a host says of itself where several are examined together.
struct HostSheet {
  std::string host;
  std::string ddprun;  ///< version
  std::string kernel;
  std::string python;
  std::string torch;  ///< version; empty, as the next two: none
  std::string nccl;
  std::string driver;          ///< NVIDIA's
  std::string gpus;            ///< "2 × NVIDIA H100"; empty: none
  std::vector<Finding> wrong;  ///< what its own page says is wrong
};

/// A host that came to the meeting.
struct SeenHost {
  HostSheet sheet;
  std::optional<int> node_rank;  ///< it was given one
  std::string address;  ///< at which it is probed; where they meet, for those on the machine that holds it
  std::optional<double> round_trip;  ///< seconds, to where they meet; none: it is there
  double clock_ahead = 0;            ///< seconds, of the clock where they meet
  double clock_doubt = 0;            ///< by how much that may be wrong
  std::string lost;                  ///< why it said no more; empty: it has said all
};

/// One host's try to reach another, at a port of the kernel's choice.
struct Probe {
  std::size_t from = 0;
  std::size_t to = 0;
  std::string error;                 ///< empty: all of it went well
  std::optional<double> round_trip;  ///< seconds, the quickest of some; none: it is not reached
  double bits_per_second = 0;        ///< of one stream
};

/// All that is known when the page is made.
struct MeetingFacts {
  std::string endpoint;  ///< "node-a:29400"
  int wanted = 0;        ///< --nnodes
  Duration waited{};     ///< for those who have not come
  std::vector<SeenHost> hosts;
  std::vector<Probe> probes;
  std::vector<std::string> turned_away;  ///< who came and cannot be one of them, and why; who came and left
};

/// What is to be said of a machine among others. Pure.
HostSheet sheet_of(const MachineFacts& machine, const std::string& version);

/// Who is probed by host `from` of `hosts` in step `step` of hosts − 1: in each step everybody probes one, and is
/// probed by one.
inline std::size_t probed_by(std::size_t from, std::size_t step, std::size_t hosts) {
  return (from + step) % hosts;
}

/// What is to be said of hosts that were examined together. Pure.
std::vector<Finding> examine_hosts(const MeetingFacts& meeting);

/// The page, the same on all of them.
std::string render_hosts(const MeetingFacts& meeting, const std::vector<Finding>& findings);

}  // namespace ddprun::launcher
