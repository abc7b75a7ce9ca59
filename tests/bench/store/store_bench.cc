// One measurement of one store server with stock c10d::TCPStore clients, printed as a line of JSON.
// tests/bench/bench_store.py has the servers take turns and prints the table.

#include "rendezvous/base/unique_fd.h"
#include "tests/bench/store/clients.h"
#include "tests/bench/store/servers.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

using namespace ddprun::bench;

namespace {

struct Settings {
  ServerKind server = ServerKind::kOurs;
  int clients = 1;
  double seconds = 1;
};

double to_seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

Load load_on(const ServerProcess& server, const Settings& settings) {
  Load load;
  load.port = server.port();
  load.clients = settings.clients;
  load.duration = std::chrono::nanoseconds(static_cast<std::int64_t>(settings.seconds * 1e9));
  return load;
}

void print_gets(const Settings& settings) {
  const ServerProcess server(settings.server);
  const Throughput result = measure_gets(load_on(server, settings), [&] { return server.cpu_time(); });
  const auto us_per_get = [&](std::chrono::nanoseconds time) {
    return to_seconds(time) * 1e6 / static_cast<double>(result.gets);
  };
  fmt::print(
      "{{\"gets_per_second\": {:.0f}, \"p99_us\": {:.1f}, \"server_cpu_us\": {:.3f}, \"own_code_us\": "
      "{:.3f}, "
      "\"server_cores\": {:.3f}}}\n",
      result.gets_per_second, to_seconds(result.p99) * 1e6, us_per_get(result.server_cpu.total),
      us_per_get(result.server_cpu.own_code), to_seconds(result.server_cpu.total) / settings.seconds);
}

void print_barrier(const Settings& settings) {
  const ServerProcess server(settings.server);
  const std::size_t before = server.private_bytes();
  const BarrierResult result =
      measure_barrier(load_on(server, settings), [&] { return server.private_bytes(); });
  fmt::print("{{\"seconds\": {:.4f}, \"bytes_per_connection\": {:.0f}}}\n", to_seconds(result.duration),
             static_cast<double>(result.server_bytes - before) / settings.clients);
}

// PyTorch's client and its server look up the name of every peer, 127.0.0.1, for their log; a name server
// that drops some of a thousand questions would be what is measured. Needs root: a file of our own in the
// place of /etc/resolv.conf.
void ask_no_name_server() {
  char path[] = "/tmp/store_bench_XXXXXX";
  const ddprun::UniqueFd file(::mkstemp(path));
  constexpr std::string_view kNobody = "nameserver 127.0.0.1\n";
  const bool is_written = file && ::write(file.get(), kNobody.data(), kNobody.size()) > 0;
  const bool is_asked = is_written && ::unshare(CLONE_NEWNS) == 0 &&
                        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                        ::mount(path, "/etc/resolv.conf", nullptr, MS_BIND, nullptr) == 0;
  if (!is_asked)
    fmt::print(stderr, "store_bench: name servers are asked; many clients may take long to connect\n");
  ::unlink(path);
}

// A connection is a descriptor, on both sides.
void raise_descriptor_limit() {
  rlimit descriptors{};
  ::getrlimit(RLIMIT_NOFILE, &descriptors);
  descriptors.rlim_cur = descriptors.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &descriptors);
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  const std::map<std::string, ServerKind> servers{{"ddprun", ServerKind::kOurs},
                                                  {"pytorch", ServerKind::kTorch}};
  CLI::App app("measures a TCPStore server with stock clients");
  app.add_option("--server", settings.server, "who serves")->transform(CLI::CheckedTransformer(servers));
  app.add_option("--clients", settings.clients, "how many clients")->check(CLI::PositiveNumber);
  app.add_option("--seconds", settings.seconds, "how long gets are counted")->check(CLI::PositiveNumber);
  CLI::App* gets =
      app.add_subcommand("gets", "gets per second and p99 latency, 64-byte values")->fallthrough();
  CLI::App* barrier =
      app.add_subcommand("barrier", "all clients through one barrier; memory a connection")->fallthrough();
  app.require_subcommand(1);
  CLI11_PARSE(app, argc, argv);

  raise_descriptor_limit();
  ask_no_name_server();
  if (gets->parsed()) print_gets(settings);
  if (barrier->parsed()) print_barrier(settings);
  return 0;
}
