#include "tests/bench/rendezvous/agents.h"

#include "rendezvous/membership/coordinator.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <utility>

namespace ddprun::bench {
namespace {

using namespace ddprun::membership;
using SteadyTime = std::chrono::steady_clock;

JobSpec spec_for(int agents) { return {.run_id = "bench", .min_nodes = agents - 1, .max_nodes = agents}; }

[[noreturn]] void give_up(const std::string& why) {
  fmt::print(stderr, "membership_bench: {}\n", why);
  std::_Exit(1);
}

void serve(int agents, const Timing& timing, int port_fd) {
  boost::asio::io_context io(1);
  const auto logger = make_null_logger();
  const auto coordinator =
      Coordinator::open(io, {.at = {.host = "127.0.0.1"}, .spec = spec_for(agents), .timing = timing},
                        *logger)
          .value();
  const std::uint16_t port = coordinator->port().value();
  if (::write(port_fd, &port, sizeof port) != sizeof port) give_up("the coordinator cannot tell its port");
  io.run();
}

}  // namespace

pid_t ChildProcess::begin() {
  const pid_t pid = ::fork();
  if (pid < 0) give_up("fork failed");
  if (pid == 0) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  return pid;
}

void ChildProcess::leave() { std::_Exit(0); }

ChildProcess::~ChildProcess() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

CoordinatorProcess::CoordinatorProcess(int agents, const Timing& timing)
    : process_([&] {
        if (::pipe(pipe_) != 0) give_up("pipe failed");
        return ChildProcess([&] { serve(agents, timing, pipe_[1]); });
      }()) {
  std::uint16_t port = 0;
  ::close(pipe_[1]);
  if (::read(pipe_[0], &port, sizeof port) != sizeof port) give_up("the coordinator did not start");
  ::close(pipe_[0]);
  port_ = Port(port);
}

double CoordinatorProcess::resident_bytes() const {
  std::ifstream status(fmt::format("/proc/{}/status", process_.pid()));
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == "VmRSS:" && status >> kib) return 1024 * kib;
  }
  return 0;
}

struct Agents::Agent final : Listener {
  explicit Agent(Counts& shared) : counts(&shared) {}
  void heard(const MemberEvent& event) override {
    if (std::holds_alternative<RoundBegins>(event)) ++counts->rounds;
    if (std::holds_alternative<RoundStopped>(event)) ++counts->stops, member->workers_stopped();
    if (std::holds_alternative<LeaseLost>(event)) ++counts->kills, member->workers_stopped();
    if (const auto* lost = std::get_if<RendezvousLost>(&event)) give_up(lost->error.message());
  }

  std::unique_ptr<Member> member;
  Counts* counts;
};

Agents::Agents(boost::asio::io_context& io, int job_size, Port port)
    : io_(io), job_size_(job_size), port_(port) {}
Agents::~Agents() = default;

void Agents::join() {
  all_.push_back(std::make_unique<Agent>(counts_));
  MemberOptions options{.host = "127.0.0.1",
                        .port = port_,
                        .spec = spec_for(job_size_),
                        .node = {.host = fmt::format("node{}", all_.size()), .address = {}},
                        .secret = {}};
  all_.back()->member = Member::open(io_, std::move(options), *all_.back());
}

void Agents::leave_last() { all_.back()->member->close(); }

void run_for(boost::asio::io_context& io, std::chrono::nanoseconds time) {
  io.restart();
  io.run_for(time);
}

double run_until(boost::asio::io_context& io, const int& count, int wanted) {
  const auto start = SteadyTime::now();
  while (count < wanted) {
    if (SteadyTime::now() - start > std::chrono::minutes(1))
      give_up(fmt::format("{} of {} after a minute", count, wanted));
    io.restart();
    io.run_one_for(std::chrono::milliseconds(100));
  }
  return std::chrono::duration<double, std::milli>(SteadyTime::now() - start).count();
}

}  // namespace ddprun::bench
