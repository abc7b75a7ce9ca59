// Membership over real sockets: a coordinator in a process of its own, and agents. Prints one line of JSON.
//
//   membership_bench round AGENTS HEARTBEAT_MS             from the last join to the last seat; a closed
//                                                          connection to the last agent that knows; memory
//                                                          and bytes on the wire for each agent
//   membership_bench silence AGENTS HEARTBEAT_MS MISSED    from an agent's last breath to the last that knows
//   membership_bench alarms AGENTS HEARTBEAT_MS MISSED SECONDS
//                                                          agents given up though they live, each a process,
//                                                          while every core is kept busy

#include "tests/bench/rendezvous/agents.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace ddprun;
using namespace ddprun::bench;
using std::chrono::milliseconds;

// The last one is awaited, however slowly they come.
membership::Timing timing_with(milliseconds heartbeat, int missed) {
  return {.debounce = std::chrono::hours(1), .heartbeat = heartbeat, .missed_heartbeats = missed};
}

void raise_descriptor_limit() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

// What all of this machine sent over loopback; nobody else should.
double loopback_bytes() {
  std::ifstream file("/sys/class/net/lo/statistics/tx_bytes");
  double bytes = 0;
  file >> bytes;
  return bytes;
}

int measure_round(int agents, milliseconds heartbeat) {
  const CoordinatorProcess coordinator(agents, timing_with(heartbeat, 5));
  const double idle_bytes = coordinator.resident_bytes();
  boost::asio::io_context io(1);
  Agents all(io, agents, coordinator.port());
  while (all.size() < agents - 1) {
    all.join();
    if (all.size() % 100 == 0) run_for(io, milliseconds(10));
  }
  run_for(io, milliseconds(500 + agents));
  const double sent_before = loopback_bytes();
  all.join();
  const double seats_ms = run_until(io, all.counts().rounds, agents);
  const double wire_bytes = loopback_bytes() - sent_before;
  const double memory = coordinator.resident_bytes() - idle_bytes;
  run_for(io, milliseconds(300));
  all.leave_last();
  const double loss_ms = run_until(io, all.counts().stops, agents - 1);
  fmt::print(
      "{{\"agents\": {}, \"seats_ms\": {:.3f}, \"loss_ms\": {:.3f}, \"memory_bytes_per_agent\": {:.0f}, "
      "\"wire_bytes_per_agent\": {:.0f}}}\n",
      agents, seats_ms, loss_ms, memory / agents, wire_bytes / agents);
  return 0;
}

// An agent in a process of its own.
ChildProcess lone_agent(int agents, Port port) {
  return ChildProcess([=] {
    boost::asio::io_context io(1);
    Agents one(io, agents, port);
    one.join();
    io.run();
  });
}

int measure_silence(int agents, const membership::Timing& timing) {
  const CoordinatorProcess coordinator(agents, timing);
  const ChildProcess victim = lone_agent(agents, coordinator.port());
  boost::asio::io_context io(1);
  Agents others(io, agents, coordinator.port());
  while (others.size() < agents - 1) others.join();
  run_until(io, others.counts().rounds, agents - 1);
  run_for(io, 3 * timing.heartbeat);
  ::kill(victim.pid(), SIGSTOP);
  const double silence_ms = run_until(io, others.counts().stops, agents - 1);
  fmt::print("{{\"agents\": {}, \"silence_ms\": {:.3f}}}\n", agents, silence_ms);
  return 0;
}

ChildProcess busy_core() {
  return ChildProcess([] {
    std::atomic<unsigned> spins{0};
    while (true) ++spins;
  });
}

int count_alarms(int agents, const membership::Timing& timing, std::chrono::seconds time) {
  const CoordinatorProcess coordinator(agents, timing);
  std::vector<ChildProcess> processes;
  for (int i = 0; i + 1 < agents; ++i) processes.push_back(lone_agent(agents, coordinator.port()));
  boost::asio::io_context io(1);
  Agents witness(io, agents, coordinator.port());
  witness.join();
  run_until(io, witness.counts().rounds, 1);
  for (long core = 0; core < ::sysconf(_SC_NPROCESSORS_ONLN); ++core) processes.push_back(busy_core());
  run_for(io, time);
  // Whoever is given up, or kills its workers, ends the generation of all.
  fmt::print("{{\"agents\": {}, \"seconds\": {}, \"alarms\": {}}}\n", agents, time.count(),
             witness.counts().stops + witness.counts().kills);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  const auto number = [&](int i) { return argc > i ? std::atoi(argv[i]) : 0; };
  raise_descriptor_limit();
  if (what == "round" && argc == 4 && number(2) > 1) return measure_round(number(2), milliseconds(number(3)));
  const auto timing = [&] { return timing_with(milliseconds(number(3)), number(4)); };
  if (what == "silence" && argc == 5 && number(2) > 1) return measure_silence(number(2), timing());
  if (what == "alarms" && argc == 6 && number(2) > 1)
    return count_alarms(number(2), timing(), std::chrono::seconds(number(5)));
  fmt::print(stderr,
             "usage: membership_bench round AGENTS HEARTBEAT_MS | silence AGENTS HEARTBEAT_MS MISSED | "
             "alarms AGENTS "
             "HEARTBEAT_MS MISSED SECONDS\n");
  return 64;
}
