#include "tests/support/catch.h"
#include "worker/runtime/comm/join_world.h"
#include <ddprun/collectives.h>
#include <ddprun/init.h>
#include <ddprun/rank_zero.h>
#include <ddprun/seed.h>

#include <c10/core/impl/FakeGuardImpl.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/types.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <sstream>

namespace ddprun {
namespace {

// The variables of a launcher, for the lifetime of the object.
class Environment {
 public:
  explicit Environment(std::map<std::string, std::string> variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : variables_) ::unsetenv(name.c_str());
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::map<std::string, std::string> variables_;
};

std::map<std::string, std::string> launched(std::uint16_t port) {
  return {{"RANK", "0"},
          {"WORLD_SIZE", "1"},
          {"LOCAL_RANK", "0"},
          {"LOCAL_WORLD_SIZE", "1"},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", std::to_string(port)},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"},
          {"TORCHELASTIC_RESTART_COUNT", "2"},
          {"TORCHELASTIC_RUN_ID", "job-17"}};
}

std::pair<ErrorCode, std::string> refusal(const InitOptions& options) {
  try {
    init(options);
  } catch (const Exception& error) {
    return {error.code(), error.what()};
  }
  return {ErrorCode::kInternal, "nothing was thrown"};
}

TEST_CASE("a program started by hand is a world of one") {
  Context context = init({.device = "cpu"});
  CHECK(!context.is_launched());
  CHECK(context.rank() == 0);
  CHECK(context.world_size() == 1);
  CHECK(context.local_rank() == 0);
  CHECK(context.local_world_size() == 1);
  CHECK(context.run_id() == "none");
  CHECK(context.device() == at::Device(at::kCPU));
  const auto tensor = torch::ones({3});
  all_reduce(context, tensor);
  CHECK(tensor.eq(1).all().item<bool>());
  context.store()->set("key", std::vector<std::uint8_t>{1});
  context.shutdown();
  context.shutdown();
}

TEST_CASE("a launched program knows what its launcher set, and meets at its store") {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  const auto server = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  const Environment environment(launched(server->getPort()));
  std::string line;
  Context context =
      init({.backend = "gloo", .device = "cpu", .log = [&](const std::string& l) { line = l; }});
  CHECK(context.is_launched());
  CHECK(context.run_id() == "job-17");
  CHECK(context.restart_count() == 2);
  CHECK(context.backend() == "gloo");
  CHECK(line == "backend gloo on cpu (" + context.backend_reason() + ")");
  context.store()->set("from the program", std::vector<std::uint8_t>{7});
  CHECK(server->get("ddprun/2/init/1/1/from the program") == std::vector<std::uint8_t>{7});
  barrier(context);
  context.shutdown();
}

TEST_CASE("variables that are wrong are named") {
  auto variables = launched(1);
  variables["RANK"] = "seven";
  {
    const Environment environment(variables);
    const auto [code, message] = refusal({});
    CHECK(code == ErrorCode::kConfig);
    CHECK(message.find("RANK") != std::string::npos);
    CHECK(message.find("seven") != std::string::npos);
  }
  variables = launched(1);
  variables.erase("MASTER_ADDR");
  const Environment environment(variables);
  const auto [code, message] = refusal({});
  CHECK(code == ErrorCode::kConfig);
  CHECK(message.find("MASTER_ADDR") != std::string::npos);
}

TEST_CASE("a backend or device that cannot be is refused by name") {
  const auto backend = refusal({.backend = "mpi"});
  CHECK(backend.first == ErrorCode::kConfig);
  CHECK(backend.second.find("mpi") != std::string::npos);
  const auto device = refusal({.device = "tpu"});
  CHECK(device.first == ErrorCode::kConfig);
  CHECK(device.second.find("tpu") != std::string::npos);
}

TEST_CASE("a store that is not there is named") {
  const Environment environment(launched(1));
  const auto [code, message] = refusal({.timeout = std::chrono::milliseconds(100)});
  CHECK(code == ErrorCode::kUnavailable);
  CHECK(message.find("init: rank 0 cannot reach the store at 127.0.0.1:1: ") == 0);
  CHECK(message.find("is the launcher that set MASTER_ADDR and MASTER_PORT still running?") !=
        std::string::npos);
}

// Eight GPUs of which only their numbers are looked at.
class PretendedGpus {
 public:
  PretendedGpus() : before_(registered().exchange(&guard_)) {}
  ~PretendedGpus() { registered() = before_; }
  PretendedGpus(const PretendedGpus&) = delete;
  PretendedGpus& operator=(const PretendedGpus&) = delete;

  [[nodiscard]] static at::Device current() { return Guard().getDevice(); }

 private:
  using Guard = c10::impl::FakeGuardImpl<c10::DeviceType::CUDA>;
  static std::atomic<const c10::impl::DeviceGuardImplInterface*>& registered() {
    return c10::impl::device_guard_impl_registry[static_cast<std::size_t>(c10::DeviceType::CUDA)];
  }

  Guard guard_;
  const c10::impl::DeviceGuardImplInterface* before_;
};

// Without a bound device a barrier takes the GPU that the rank's number suggests.
TEST_CASE("a group on a GPU knows which one, and makes it the current one whatever its backend") {
  const PretendedGpus pretended;
  runtime::Placement placement{.backend = runtime::BackendKind::kGloo, .gpu = 3};
  const auto group = runtime::make_process_group(c10::make_intrusive<c10d::HashStore>(), {}, placement,
                                                 std::chrono::seconds(10));
  CHECK(PretendedGpus::current() == at::Device(at::kCUDA, 3));
  CHECK(group->getBoundDeviceId() == at::Device(at::kCUDA, 3));
  CHECK(group->getBackend(c10::DeviceType::CUDA)->getBoundDeviceId() == at::Device(at::kCUDA, 3));
}

TEST_CASE("seed_all_devices makes random numbers repeat") {
  seed_all_devices(11);
  const auto first = torch::rand({5});
  CHECK(!torch::rand({5}).equal(first));
  seed_all_devices(11);
  CHECK(torch::rand({5}).equal(first));
}

TEST_CASE("only rank 0 prints") {
  std::ostringstream text;
  std::streambuf* const before = std::cout.rdbuf(text.rdbuf());
  RankZeroOut(true) << "loss " << 0.5 << "\n";
  RankZeroOut(false) << "loss " << 0.7 << "\n";
  rank_zero_out(init({.device = "cpu"})) << "alone\n";
  std::cout.rdbuf(before);
  CHECK(text.str() == "loss 0.5\nalone\n");
}

}  // namespace
}  // namespace ddprun
