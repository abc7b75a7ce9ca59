#include "tests/bench/store/servers.h"

#include "rendezvous/store/server.h"

#include <boost/asio/io_context.hpp>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>

namespace ddprun::bench {
namespace {

void report_port(int pipe, std::uint16_t port) {
  if (::write(pipe, &port, sizeof(port)) != sizeof(port)) std::abort();
  ::close(pipe);
}

[[noreturn]] void serve_ours(int pipe) {
  boost::asio::io_context io(1);
  const auto logger = make_stderr_logger("store", spdlog::level::warn);
  store::StoreServerOptions options;
  options.at.host = "127.0.0.1";
  const auto server = std::move(store::StoreServer::open(io, options, *logger).value());
  report_port(pipe, server->port().value());
  io.run();
  std::_Exit(0);
}

[[noreturn]] void serve_torch(int pipe) {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  const auto server = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  report_port(pipe, server->getPort());
  while (true) ::pause();
}

}  // namespace

ServerProcess::ServerProcess(ServerKind kind) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("pipe failed");
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(ends[0]);
    kind == ServerKind::kOurs ? serve_ours(ends[1]) : serve_torch(ends[1]);
  }
  ::close(ends[1]);
  const bool is_up = ::read(ends[0], &port_, sizeof(port_)) == sizeof(port_);
  ::close(ends[0]);
  if (!is_up) throw std::runtime_error("a store server did not start");
}

ServerProcess::~ServerProcess() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

CpuTime ServerProcess::cpu_time() const {
  clockid_t clock{};
  timespec time{};
  if (::clock_getcpuclockid(pid_, &clock) != 0 || ::clock_gettime(clock, &time) != 0)
    throw std::runtime_error("the CPU time of a store server cannot be read");
  std::ifstream stat("/proc/" + std::to_string(pid_) + "/stat");
  stat.ignore(std::numeric_limits<std::streamsize>::max(), ')');
  std::string field;
  for (int number = 3; number < 14; ++number) stat >> field;
  std::int64_t user_ticks = 0;
  stat >> user_ticks;
  return {
      .total = std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec),
      .own_code = std::chrono::nanoseconds(std::chrono::seconds(1)) * user_ticks / ::sysconf(_SC_CLK_TCK)};
}

std::size_t ServerProcess::private_bytes() const {
  std::ifstream smaps("/proc/" + std::to_string(pid_) + "/smaps_rollup");
  std::size_t kilobytes = 0;
  for (std::string word; smaps >> word;) {
    std::size_t value = 0;
    if ((word == "Private_Clean:" || word == "Private_Dirty:") && smaps >> value) kilobytes += value;
  }
  return kilobytes * 1024;
}

}  // namespace ddprun::bench
