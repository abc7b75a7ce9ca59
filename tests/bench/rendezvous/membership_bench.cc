// membership_bench AGENTS [HEARTBEAT_MS]: a coordinator in a process of its own and that many agents in this
// one, over real sockets. Prints one line of JSON: milliseconds from the last join to the last seat, from a
// closed connection to the last agent that knows, and bytes of the coordinator's memory for each agent.

#include "rendezvous/membership/coordinator.h"
#include "rendezvous/membership/member.h"

#include <boost/asio/io_context.hpp>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace ddprun;
using namespace ddprun::membership;
using SteadyTime = std::chrono::steady_clock;

struct Agent final : Listener {
  void on_waiting(const std::string&) override {}
  void on_round(const Round&) override { ++*rounds; }
  void on_stop(const std::string&) override {
    ++*stops;
    member->workers_stopped();
  }
  void on_kill(const std::string& why) override { fmt::print(stderr, "killed: {}\n", why); }
  void on_end(const JobEnd&) override {}
  void on_failed(const Error& error) override {
    fmt::print(stderr, "{}\n", error.message());
    std::exit(1);
  }
  std::unique_ptr<Member> member;
  int* rounds = nullptr;
  int* stops = nullptr;
};

WorldSpec spec_for(int agents) { return {.run_id = "bench", .min_nodes = agents - 1, .max_nodes = agents}; }

[[noreturn]] void serve(int agents, const Timing& timing, int port_fd) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  boost::asio::io_context io(1);
  const auto logger = make_null_logger();
  auto coordinator =
      Coordinator::open(io, {.host = "127.0.0.1", .spec = spec_for(agents), .timing = timing}, *logger)
          .value();
  const std::uint16_t port = coordinator->port().value();
  if (::write(port_fd, &port, sizeof port) != sizeof port) std::_Exit(1);
  io.run();
  std::_Exit(0);
}

double resident_kib(pid_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string word; status >> word;) {
    if (word != "VmRSS:") continue;
    double kib = 0;
    status >> kib;
    return kib;
  }
  return 0;
}

void run_for(boost::asio::io_context& io, std::chrono::milliseconds time) {
  io.restart();
  io.run_for(time);
}

double run_until(boost::asio::io_context& io, const int& count, int wanted) {
  const auto start = SteadyTime::now();
  io.restart();
  while (count < wanted && SteadyTime::now() - start < std::chrono::seconds(60)) {
    io.run_one_for(std::chrono::milliseconds(100));
    io.restart();
  }
  return std::chrono::duration<double, std::milli>(SteadyTime::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  const int agents = argc > 1 ? std::atoi(argv[1]) : 100;
  const Timing timing{.debounce = std::chrono::hours(1),  // the last one is awaited, however slowly they come
                      .heartbeat = std::chrono::milliseconds(argc > 2 ? std::atoi(argv[2]) : 1000)};
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  int port_pipe[2];
  if (agents < 2 || ::pipe(port_pipe) != 0) return 64;
  const pid_t server = ::fork();
  if (server == 0) serve(agents, timing, port_pipe[1]);
  std::uint16_t port = 0;
  if (::read(port_pipe[0], &port, sizeof port) != sizeof port) return 1;

  boost::asio::io_context io(1);
  const auto logger = make_null_logger();
  int rounds = 0;
  int stops = 0;
  std::vector<std::unique_ptr<Agent>> all;
  const double idle_kib = resident_kib(server);
  const auto join = [&] {
    auto agent = std::make_unique<Agent>();
    agent->rounds = &rounds;
    agent->stops = &stops;
    agent->member = Member::open(io,
                                 {.host = "127.0.0.1",
                                  .port = Port(port),
                                  .spec = spec_for(agents),
                                  .node = {.host = fmt::format("node{}", all.size()), .address = {}}},
                                 *agent, *logger);
    all.push_back(std::move(agent));
  };
  while (static_cast<int>(all.size()) < agents - 1) {
    join();
    if (all.size() % 100 == 0) run_for(io, std::chrono::milliseconds(10));
  }
  run_for(io, std::chrono::milliseconds(500 + agents));
  join();
  const double seats_ms = run_until(io, rounds, agents);
  const double memory = (resident_kib(server) - idle_kib) * 1024 / agents;
  run_for(io, std::chrono::milliseconds(300));
  all.back()->member->close();
  const double loss_ms = run_until(io, stops, agents - 1);
  ::kill(server, SIGKILL);
  ::waitpid(server, nullptr, 0);
  fmt::print(
      "{{\"agents\":{},\"seats_ms\":{:.3f},\"loss_ms\":{:.3f},\"bytes_per_agent\":{:.0f},\"complete\":{}}}\n",
      agents, seats_ms, loss_ms, memory, rounds >= agents && stops >= agents - 1);
  return rounds >= agents && stops >= agents - 1 ? 0 : 1;
}
