#include "launcher/plan/cpu_binding.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace ddprun::launcher {
namespace {

using CpuList = std::vector<int>;
using CpuGroups = std::map<int, CpuList>;

std::vector<int> known_nodes(const HostFacts& host) {
  std::set<int> nodes;
  for (const CpuFacts& cpu : host.cpus) {
    if (cpu.numa_node >= 0) nodes.insert(cpu.numa_node);
  }
  return {nodes.begin(), nodes.end()};
}

/// The NUMA node of each local rank: its GPU's, or an even spread.
std::vector<int> nodes_of_ranks(const HostFacts& host, const std::vector<int>& nodes, std::size_t ranks) {
  std::vector<int> result;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const int near_gpu = rank < host.gpu_numa_node.size() ? host.gpu_numa_node[rank] : -1;
    const bool is_usable = std::find(nodes.begin(), nodes.end(), near_gpu) != nodes.end();
    result.push_back(is_usable ? near_gpu : nodes[rank * nodes.size() / ranks]);
  }
  return result;
}

template <class Key>
CpuGroups group_cpus(const HostFacts& host, int node, Key key) {
  CpuGroups groups;
  for (const CpuFacts& cpu : host.cpus) {
    if (cpu.numa_node == node) groups[key(cpu)].push_back(cpu.id);
  }
  return groups;
}

CpuList cpus_of_node(const HostFacts& host, int node) {
  CpuList cpus;
  for (const CpuFacts& cpu : host.cpus) {
    if (cpu.numa_node == node) cpus.push_back(cpu.id);
  }
  return cpus;
}

CpuList cpus_of_socket(const HostFacts& host, int node) {
  const auto on_node = std::find_if(host.cpus.begin(), host.cpus.end(),
                                    [node](const CpuFacts& cpu) { return cpu.numa_node == node; });
  CpuList cpus;
  for (const CpuFacts& cpu : host.cpus) {
    if (cpu.socket == on_node->socket) cpus.push_back(cpu.id);
  }
  return cpus;
}

/// A rank among those of its node.
struct CpuShare {
  int index = 0;
  int count = 1;
};

CpuShare share_of(const std::vector<int>& node_of_rank, std::size_t rank) {
  const auto self = node_of_rank.begin() + static_cast<std::ptrdiff_t>(rank);
  return {.index = static_cast<int>(std::count(node_of_rank.begin(), self, *self)),
          .count = static_cast<int>(std::count(node_of_rank.begin(), node_of_rank.end(), *self))};
}

Result<CpuList> exclusive_share(const HostFacts& host, int node, CpuShare share) {
  const CpuGroups cores = group_cpus(host, node, [](const CpuFacts& cpu) { return cpu.core; });
  const int core_count = static_cast<int>(cores.size());
  if (core_count < share.count) {
    return Error(ErrorCode::kUsage,
                 fmt::format("--numa-binding exclusive: NUMA node {} has {} physical cores for {} workers; "
                             "start fewer workers or use --numa-binding node",
                             node, core_count, share.count));
  }
  // The first `extra` ranks get one core more.
  const int each = core_count / share.count;
  const int extra = core_count % share.count;
  const int begin = share.index * each + std::min(share.index, extra);
  const int end = begin + each + (share.index < extra ? 1 : 0);
  CpuList cpus;
  for (int core = begin; core < end; ++core) {
    const CpuList& threads = std::next(cores.begin(), core)->second;
    cpus.insert(cpus.end(), threads.begin(), threads.end());
  }
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

CpuList core_complex(const HostFacts& host, int node, CpuShare share) {
  const CpuGroups by_cache = group_cpus(host, node, [](const CpuFacts& cpu) { return cpu.cache; });
  std::vector<CpuList> complexes;
  for (const auto& [cache, cpus] : by_cache) complexes.push_back(cpus);
  std::stable_sort(complexes.begin(), complexes.end(),
                   [](const CpuList& a, const CpuList& b) { return a.size() > b.size(); });
  return complexes[static_cast<std::size_t>(share.index) % complexes.size()];
}

Result<CpuList> cpus_of_rank(NumaBinding binding, const HostFacts& host, const std::vector<int>& node_of_rank,
                             std::size_t rank) {
  const int node = node_of_rank[rank];
  switch (binding) {
    case NumaBinding::kNode:
      return cpus_of_node(host, node);
    case NumaBinding::kSocket:
      return cpus_of_socket(host, node);
    case NumaBinding::kExclusive:
      return exclusive_share(host, node, share_of(node_of_rank, rank));
    case NumaBinding::kCoreComplex:
      return core_complex(host, node, share_of(node_of_rank, rank));
  }
  return CpuList{};
}

}  // namespace

Result<std::vector<std::vector<int>>> bind_cpus(NumaBinding binding, const HostFacts& host,
                                                LocalWorldSize ranks) {
  const std::vector<int> nodes = known_nodes(host);
  if (nodes.empty()) {
    return Error(
        ErrorCode::kUsage,
        "--numa-binding: /sys/devices/system/node names no NUMA node of our CPUs; leave the flag away");
  }
  const auto rank_count = static_cast<std::size_t>(ranks.value());
  const std::vector<int> node_of_rank = nodes_of_ranks(host, nodes, rank_count);
  std::vector<CpuList> bindings;
  for (std::size_t rank = 0; rank < rank_count; ++rank) {
    Result<CpuList> cpus = cpus_of_rank(binding, host, node_of_rank, rank);
    if (!cpus) return cpus.error();
    bindings.push_back(std::move(*cpus));
  }
  return bindings;
}

}  // namespace ddprun::launcher
