#include "launcher/plan/cpu_binding.h"

#include "tests/support/catch.h"

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

/// Two sockets of two NUMA nodes each; four CPUs a node: two cores with two threads, CPU i and i + 16 being
/// siblings.
HostFacts big_machine() {
  HostFacts host;
  for (int cpu = 0; cpu < 32; ++cpu) {
    const int core = cpu % 16;
    host.cpus.push_back(
        {.id = cpu, .numa_node = core / 4, .socket = core / 8, .core = core, .cache = core / 2 * 2});
  }
  return host;
}

using Bindings = std::vector<std::vector<int>>;

}  // namespace

TEST_CASE("node binding gives all CPUs of the NUMA node near the GPU of the same local rank") {
  HostFacts host = big_machine();
  host.gpu_numa_node = {3, 0};
  const Bindings cpus = bind_cpus(NumaBinding::kNode, host, LocalWorldSize(2)).value();
  CHECK(cpus[0] == std::vector<int>{12, 13, 14, 15, 28, 29, 30, 31});
  CHECK(cpus[1] == std::vector<int>{0, 1, 2, 3, 16, 17, 18, 19});
}

TEST_CASE("without GPUs the ranks are spread evenly over the nodes") {
  const Bindings cpus = bind_cpus(NumaBinding::kNode, big_machine(), LocalWorldSize(8)).value();
  CHECK(cpus[0] == cpus[1]);
  CHECK(cpus[1].front() == 0);
  CHECK(cpus[2].front() == 4);
  CHECK(cpus[7].front() == 12);
}

TEST_CASE("socket binding gives all nodes of the socket") {
  const Bindings cpus = bind_cpus(NumaBinding::kSocket, big_machine(), LocalWorldSize(2)).value();
  CHECK(cpus[0].size() == 16);
  CHECK(cpus[1].front() == 8);
}

TEST_CASE("exclusive binding shares no core, and the first ranks get what does not divide") {
  HostFacts host = big_machine();
  host.gpu_numa_node = {1, 1, 1};
  const Bindings cpus = bind_cpus(NumaBinding::kExclusive, host, LocalWorldSize(3)).value();
  CHECK(cpus[0] == std::vector<int>{4, 5, 20, 21});
  CHECK(cpus[1] == std::vector<int>{6, 22});
  CHECK(cpus[2] == std::vector<int>{7, 23});
}

TEST_CASE("core-complex binding gives each rank another last-level cache while there are enough") {
  HostFacts host = big_machine();
  host.gpu_numa_node = {0, 0, 0};
  const Bindings cpus = bind_cpus(NumaBinding::kCoreComplex, host, LocalWorldSize(3)).value();
  CHECK(cpus[0] == std::vector<int>{0, 1, 16, 17});
  CHECK(cpus[1] == std::vector<int>{2, 3, 18, 19});
  CHECK(cpus[2] == cpus[0]);
}

TEST_CASE("a binding that cannot be is refused with numbers") {
  HostFacts host = big_machine();
  host.gpu_numa_node = {0, 0, 0, 0, 0};
  CHECK(
      bind_cpus(NumaBinding::kExclusive, host, LocalWorldSize(5)).error().message() ==
      "--numa-binding exclusive: NUMA node 0 has 4 physical cores for 5 workers; start fewer workers or use "
      "--numa-binding node");
  HostFacts unknown;
  unknown.cpus = {{.id = 0}};
  CHECK(bind_cpus(NumaBinding::kNode, unknown, LocalWorldSize(1)).error().message() ==
        "--numa-binding: /sys/devices/system/node names no NUMA node of our CPUs; leave the flag away");
}
