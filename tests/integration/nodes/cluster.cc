#include "tests/integration/nodes/cluster.h"

#include "rendezvous/base/unique_fd.h"
#include "tests/support/catch.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <random>

namespace ddprun::testing {
namespace {

using namespace std::chrono_literals;

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

template <class Call>
bool succeeds(Call call, std::uint16_t port) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(port);
  return call(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

std::string free_port() {
  std::random_device draw;
  for (;;) {
    const auto port = static_cast<std::uint16_t>(10'000 + draw() % 22'000);
    if (succeeds(::bind, port)) return std::to_string(port);
  }
}

void wait_until_served(const std::string& port) {
  REQUIRE(eventually(10s, [&] { return succeeds(::connect, static_cast<std::uint16_t>(std::stoi(port))); }));
}

void check_refused(Launched& stranger, Launched& coordinator, const std::string& sentence) {
  CHECK(stranger.wait() == 64);
  CHECK_THAT(stranger.err(), Catch::Matchers::Contains(sentence));
  coordinator.wait_for_err(sentence);
  coordinator.signal(SIGKILL);
  coordinator.wait();
}

std::unique_ptr<Launched> Cluster::start_dynamic(const std::string& name) const {
  std::vector<std::string> arguments{"--rdzv-endpoint", "127.0.0.1:" + port, "--rdzv-id", run_id};
  if (!name.empty()) arguments.insert(arguments.end(), {"--local-addr", name});
  return start(std::move(arguments));
}

std::unique_ptr<Launched> Cluster::start_static(int node_rank) const {
  return start(
      {"--node-rank", std::to_string(node_rank), "--master-addr", "127.0.0.1", "--master-port", port});
}

std::unique_ptr<Launched> Cluster::start(std::vector<std::string> arguments) const {
  arguments.insert(arguments.end(), {"--nnodes", nnodes, "--nproc-per-node", nproc});
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  arguments.insert(arguments.end(), {"--no-python", "/bin/sh", "-c", script});
  return std::make_unique<Launched>(ddprun_command(arguments), LaunchOptions{.environment = environment});
}

}  // namespace ddprun::testing
