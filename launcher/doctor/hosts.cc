#include "launcher/doctor/hosts.h"

#include "launcher/doctor/machine.h"
#include "launcher/text/text.h"
#include "rendezvous/base/format_duration.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace ddprun::launcher {
namespace {

constexpr std::size_t kMostNames = 16;
constexpr std::size_t kMostLines = 20;  // of one kind
constexpr double kLongRoundTrip = 2e-3;
constexpr double kSlowShare = 1.0 / 3;  // of what the others have
constexpr double kClocksApart = 0.5;

using Indices = std::vector<std::size_t>;

std::string joined(const std::vector<std::string>& names) {
  if (names.size() <= kMostNames) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more", fmt::join(names.begin(), names.begin() + kMostNames, ", "),
                     names.size() - kMostNames);
}

/// What hosts are called on the page: by name, where that tells them apart.
class Names {
 public:
  explicit Names(const std::vector<SeenHost>& hosts) {
    for (const SeenHost& host : hosts) {
      placed_.push_back(fmt::format("{} ({})", host.sheet.host, host.address));
      const bool is_alone = std::count_if(hosts.begin(), hosts.end(), [&](const SeenHost& each) {
                              return each.sheet.host == host.sheet.host;
                            }) == 1;
      const auto same = std::count_if(hosts.begin(), hosts.end(), [&](const SeenHost& each) {
        return each.sheet.host == host.sheet.host && each.address == host.address;
      });
      if (same > 1) placed_.back() += fmt::format(" #{}", placed_.size() - 1);
      short_.push_back(is_alone ? host.sheet.host : placed_.back());
    }
  }
  /// "node-a"
  [[nodiscard]] const std::string& of(std::size_t host) const { return short_[host]; }
  /// "node-a (10.0.0.1)"
  [[nodiscard]] const std::string& placed(std::size_t host) const { return placed_[host]; }
  [[nodiscard]] std::string of(const Indices& hosts) const {
    std::vector<std::string> names;
    for (const std::size_t host : hosts) names.push_back(short_[host]);
    return joined(names);
  }
  [[nodiscard]] std::string all_placed() const { return joined(placed_); }

 private:
  std::vector<std::string> short_;
  std::vector<std::string> placed_;
};

/// Node ranks that nobody has, where all who came have one.
std::vector<int> missing_ranks(const MeetingFacts& meeting) {
  std::vector<int> missing;
  for (int rank = 0; rank < meeting.wanted; ++rank) {
    const bool is_there = std::any_of(meeting.hosts.begin(), meeting.hosts.end(),
                                      [&](const SeenHost& host) { return host.node_rank == rank; });
    if (!is_there) missing.push_back(rank);
  }
  const bool has_each_one = std::all_of(meeting.hosts.begin(), meeting.hosts.end(),
                                        [](const SeenHost& host) { return host.node_rank.has_value(); });
  return has_each_one ? missing : std::vector<int>();
}

void add_hosts(const MeetingFacts& meeting, const Names& names, std::vector<Finding>& findings) {
  const auto came = static_cast<int>(meeting.hosts.size());
  if (came == meeting.wanted) {
    findings.push_back(all_right("hosts", names.all_placed()));
  } else {
    const std::vector<int> missing = missing_ranks(meeting);
    const std::string who =
        missing.empty() ? std::string() : fmt::format("; --node-rank {} did not", fmt::join(missing, ", "));
    findings.push_back(all_wrong(
        "hosts",
        fmt::format("{} of {} came: {}{}, within {}", came, meeting.wanted,
                    came == 0 ? "none" : names.all_placed(), who, format_duration(meeting.waited)),
        fmt::format(
            "is ddprun doctor started on each, with {} and --nnodes {}? where it is, its own page says why "
            "it does not get here; --timeout waits longer",
            meeting.endpoint, meeting.wanted)));
  }
  for (const std::string& who : meeting.turned_away) findings.push_back(to_note("hosts", who));
  for (std::size_t i = 0; i < meeting.hosts.size(); ++i) {
    if (!meeting.hosts[i].lost.empty()) {
      findings.push_back(
          all_wrong("hosts", fmt::format("{} came, and was lost: {}", names.of(i), meeting.hosts[i].lost),
                    "was it ended there? where it was not, the network between breaks connections"));
    }
  }
}

bool is_told(const MeetingFacts& meeting, const Probe& probe) {
  return meeting.hosts[probe.from].lost.empty() && meeting.hosts[probe.to].lost.empty();
}

/// How to mend what keeps connections away, by what the kernel says of it.
std::string mend_for(const std::string& error, const std::string& address) {
  if (has(error, "refused")) {
    return "something on the way, or on it, rejects what it listens for: nft list ruleset, iptables -S, "
           "security "
           "groups; workers need all ports between hosts of a job";
  }
  if (has(error, "route") || has(error, "unreachable"))
    return fmt::format(
        "ip route get {} says where packets go from there; give the hosts one network, or a route", address);
  return "something drops the packets, perhaps the answers: nft list ruleset, iptables -S, security groups, "
         "on both "
         "and between; workers need all ports between hosts of a job";
}

/// One for each host that is not reached and each reason.
struct Unreached {
  std::size_t to = 0;
  std::string error;
  Indices from;
};

std::vector<Unreached> unreached(const MeetingFacts& meeting) {
  std::vector<Unreached> all;
  for (const Probe& probe : meeting.probes) {
    if (probe.round_trip || !is_told(meeting, probe)) continue;
    const auto same = std::find_if(all.begin(), all.end(), [&](const Unreached& each) {
      return each.to == probe.to && each.error == probe.error;
    });
    if (same == all.end()) {
      all.push_back({probe.to, probe.error, {probe.from}});
    } else {
      same->from.push_back(probe.from);
    }
  }
  std::sort(all.begin(), all.end(), [](const Unreached& a, const Unreached& b) {
    return std::tie(a.to, a.error) < std::tie(b.to, b.error);
  });
  for (Unreached& each : all) std::sort(each.from.begin(), each.from.end());
  return all;
}

std::string shown_time(double seconds) { return format_duration(std::chrono::duration<double>(seconds)); }

void add_reach(const MeetingFacts& meeting, const Names& names, std::vector<Finding>& findings) {
  const std::vector<Unreached> all = unreached(meeting);
  for (std::size_t i = 0; i < std::min(all.size(), kMostLines); ++i) {
    const Unreached& each = all[i];
    const std::string who =
        each.from.size() > 1 && each.from.size() + 1 == meeting.hosts.size()
            ? "none of the others reaches"
            : fmt::format("{} {} not reach", names.of(each.from), each.from.size() == 1 ? "does" : "do");
    findings.push_back(all_wrong("reach", fmt::format("{} {}: {}", who, names.placed(each.to), each.error),
                                 mend_for(each.error, meeting.hosts[each.to].address)));
  }
  if (all.size() > kMostLines)
    findings.push_back(all_wrong("reach", fmt::format("{} more such", all.size() - kMostLines), {}));
  if (!all.empty()) return;
  double longest = 0;
  for (const SeenHost& host : meeting.hosts) longest = std::max(longest, host.round_trip.value_or(0));
  if (std::any_of(meeting.probes.begin(), meeting.probes.end(),
                  [&](const Probe& probe) { return is_told(meeting, probe); })) {
    findings.push_back(all_right(
        "reach",
        fmt::format("all reach {} ({}), and each other at ports of the kernel's choice, as gloo's and NCCL's",
                    meeting.endpoint, longest > 0 ? shown_time(longest) : "from here")));
  }
}

std::string shown_rate(double bits_per_second) { return fmt::format("{:.3g} Gbit/s", bits_per_second / 1e9); }

std::string pair_of(const Names& names, const Probe& probe) {
  return fmt::format("{} to {}", names.of(probe.from), names.of(probe.to));
}

void add_round_trips(const MeetingFacts& meeting, const Names& names, std::vector<Finding>& findings) {
  std::vector<Probe> reached;
  std::copy_if(meeting.probes.begin(), meeting.probes.end(), std::back_inserter(reached),
               [&](const Probe& probe) { return probe.round_trip.has_value(); });
  if (reached.empty()) return;
  const auto [quickest, slowest] =
      std::minmax_element(reached.begin(), reached.end(),
                          [](const Probe& a, const Probe& b) { return *a.round_trip < *b.round_trip; });
  const std::string state = fmt::format("{} to {} ({})", shown_time(*quickest->round_trip),
                                        shown_time(*slowest->round_trip), pair_of(names, *slowest));
  findings.push_back(
      *slowest->round_trip <= kLongRoundTrip
          ? all_right("round trip", state)
          : to_note("round trip", state,
                    "each collective waits for several of them: hosts of one rack have less than a "
                    "tenth of a millisecond"));
}

void add_rates(const MeetingFacts& meeting, const Names& names, std::vector<Finding>& findings) {
  std::vector<Probe> measured;
  std::size_t lines = 0;
  for (const Probe& probe : meeting.probes) {
    if (probe.round_trip && probe.error.empty()) measured.push_back(probe);
    if (!probe.round_trip || probe.error.empty() || !is_told(meeting, probe) || lines++ >= kMostLines)
      continue;
    findings.push_back(all_wrong(
        "bandwidth",
        fmt::format("{}: single bytes arrive, a stream does not: {}", pair_of(names, probe), probe.error),
        fmt::format("packets of full size are lost: the same MTU everywhere (ip link), ping -M do -s 1472 {}",
                    meeting.hosts[probe.to].address)));
  }
  if (measured.empty()) return;
  std::sort(measured.begin(), measured.end(),
            [](const Probe& a, const Probe& b) { return a.bits_per_second < b.bits_per_second; });
  const Probe& least = measured.front();
  const double usual = measured[measured.size() / 2].bits_per_second;
  const std::string state =
      fmt::format("{} ({}) to {}, one stream from each host at a time", shown_rate(least.bits_per_second),
                  pair_of(names, least), shown_rate(measured.back().bits_per_second));
  if (least.bits_per_second >= usual * kSlowShare) return findings.push_back(all_right("bandwidth", state));
  findings.push_back(
      to_note("bandwidth", fmt::format("{}; {} in the middle", state, shown_rate(usual)),
              "the slowest holds up all: ethtool says at which speed a card runs; is there other load?"));
}

/// A fact that has to be, or should be, the same on all hosts.
struct Common {
  const char* topic;
  std::string HostSheet::*fact;
  FindingKind if_different;
  const char* mend;
};

constexpr const char* kSameTorch =
    "ranks of different releases end or hang in the first collective: install one on all";

const Common kCommon[] = {
    {"ddprun", &HostSheet::ddprun, FindingKind::kNote,
     "agents of different releases may refuse each other: install one on all"},
    {"Python", &HostSheet::python, FindingKind::kNote, "what one has installed the other may not have"},
    {"torch", &HostSheet::torch, FindingKind::kWrong, kSameTorch},
    {"NCCL", &HostSheet::nccl, FindingKind::kWrong, kSameTorch},
    {"driver", &HostSheet::driver, FindingKind::kNote, "the oldest one has to carry everybody's CUDA"},
    {"GPUs", &HostSheet::gpus, FindingKind::kNote,
     "--nproc-per-node gpu starts as many workers as each host has; the slowest holds up all"},
    {"kernel", &HostSheet::kernel, FindingKind::kNote, ""},
};

void add_common(const MeetingFacts& meeting, const Names& names, std::vector<Finding>& findings) {
  for (const Common& common : kCommon) {
    std::vector<std::pair<std::string, Indices>> groups;
    for (std::size_t i = 0; i < meeting.hosts.size(); ++i) {
      const std::string& value = meeting.hosts[i].sheet.*common.fact;
      const auto same =
          std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.first == value; });
      if (same == groups.end()) {
        groups.push_back({value, {i}});
      } else {
        same->second.push_back(i);
      }
    }
    if (groups.size() == 1) {
      if (!groups.front().first.empty())
        findings.push_back(all_right(common.topic, groups.front().first + " on all"));
      continue;
    }
    std::vector<std::string> parts;
    for (const auto& [value, hosts] : groups)
      parts.push_back(fmt::format("{} on {}", value.empty() ? "none" : value, names.of(hosts)));
    if (!parts.empty())
      findings.push_back(
          {common.if_different, common.topic, fmt::format("{}", fmt::join(parts, "; ")), common.mend});
  }
}

void add_clocks(const MeetingFacts& meeting, const Names& names, std::vector<Finding>& findings) {
  if (meeting.hosts.size() < 2) return;
  const auto by_clock = [](const SeenHost& a, const SeenHost& b) { return a.clock_ahead < b.clock_ahead; };
  const auto [last, first] = std::minmax_element(meeting.hosts.begin(), meeting.hosts.end(), by_clock);
  const double apart = first->clock_ahead - last->clock_ahead;
  const double doubt = first->clock_doubt + last->clock_doubt;
  if (apart - doubt <= kClocksApart)
    return findings.push_back(
        all_right("clocks", fmt::format("at most {} apart", shown_time(apart + doubt))));
  const auto index = [&](const auto& host) { return static_cast<std::size_t>(host - meeting.hosts.begin()); };
  findings.push_back(to_note(
      "clocks",
      fmt::format("{} is {} ahead of {}", names.of(index(first)), shown_time(apart), names.of(index(last))),
      "logs of several machines cannot be laid side by side: start chrony or systemd-timesyncd"));
}

/// What is wrong with single hosts, once for all that have it.
void add_own(const MeetingFacts& meeting, const Names& names, std::vector<Finding>& findings) {
  std::vector<std::pair<Finding, Indices>> groups;
  for (std::size_t i = 0; i < meeting.hosts.size(); ++i) {
    for (const Finding& wrong : meeting.hosts[i].sheet.wrong) {
      const auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
        return std::tie(group.first.topic, group.first.state, group.first.mend) ==
               std::tie(wrong.topic, wrong.state, wrong.mend);
      });
      if (same == groups.end()) {
        groups.push_back({wrong, {i}});
      } else {
        same->second.push_back(i);
      }
    }
  }
  for (const auto& [wrong, hosts] : groups)
    findings.push_back(
        all_wrong(wrong.topic, fmt::format("{}: {}", names.of(hosts), wrong.state), wrong.mend));
}

}  // namespace

HostSheet sheet_of(const MachineFacts& machine, const std::string& version) {
  HostSheet sheet{.host = machine.hostname,
                  .ddprun = version,
                  .kernel = machine.kernel,
                  .python = machine.python.version,
                  .torch = machine.python.torch,
                  .nccl = machine.python.nccl,
                  .driver = machine.driver,
                  .gpus = describe_gpus(machine.gpus),
                  .wrong = {}};
  for (Finding& finding : examine(machine, true)) {
    if (finding.kind == FindingKind::kWrong) sheet.wrong.push_back(std::move(finding));
  }
  return sheet;
}

std::vector<Finding> examine_hosts(const MeetingFacts& meeting) {
  const Names names(meeting.hosts);
  std::vector<Finding> findings;
  add_hosts(meeting, names, findings);
  add_reach(meeting, names, findings);
  add_round_trips(meeting, names, findings);
  add_rates(meeting, names, findings);
  add_common(meeting, names, findings);
  add_clocks(meeting, names, findings);
  add_own(meeting, names, findings);
  return findings;
}

std::string render_hosts(const MeetingFacts& meeting, const std::vector<Finding>& findings) {
  return fmt::format("{} of {} hosts at {}\n\n{}", meeting.hosts.size(), meeting.wanted, meeting.endpoint,
                     render_findings(findings));
}

}  // namespace ddprun::launcher
