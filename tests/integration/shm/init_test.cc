// What needs several processes that call init(): the ranks' agreement before any group is made, programs that follow
// each other, and a drain.
#include "tests/integration/shm/processes.h"
#include "tests/support/catch.h"
#include <ddprun/drain.h>
#include <ddprun/group.h>
#include <ddprun/init.h>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/types.h>

#include <array>
#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

using namespace ddprun;
using ddprun::testing::require;
using namespace std::chrono_literals;

namespace {

c10::intrusive_ptr<c10d::TCPStore> serve() {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

/// The variables of a launcher, for a process that ends soon.
void become_rank(int rank, int size, std::uint16_t port) {
  const std::string world = std::to_string(size);
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, std::string>>{{"RANK", std::to_string(rank)},
                                                                  {"LOCAL_RANK", std::to_string(rank)},
                                                                  {"WORLD_SIZE", world},
                                                                  {"LOCAL_WORLD_SIZE", world},
                                                                  {"MASTER_ADDR", "127.0.0.1"},
                                                                  {"MASTER_PORT", std::to_string(port)},
                                                                  {"TORCHELASTIC_USE_AGENT_STORE", "True"}}) {
    ::setenv(name, value.c_str(), 1);
  }
}

std::string refusal(const InitOptions& options) {
  try {
    init(options);
  } catch (const Exception& error) {
    return error.code() == ErrorCode::kConfig ? error.what() : std::string("another code: ") + error.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("ranks that want different backends hear it from init, all of them") {
  const auto server = serve();
  CHECK(testing::in_processes(2, [&](int rank, const c10::intrusive_ptr<c10d::Store>&) {
    become_rank(rank, 2, server->getPort());
    const std::string message = refusal(
        {.backend = rank == 0 ? "gloo" : "shm", .device = "cpu", .timeout = 20s, .log = [](const auto&) {}});
    require(message.find("init: the ranks ask for different backends: rank 0 on ") == 0, message);
    require(message.find(" for gloo, rank 1 on ") != std::string::npos, message);
  }));
}

TEST_CASE("what one rank cannot do, every rank's init refuses") {
  const auto server = serve();
  CHECK(testing::in_processes(2, [&](int rank, const c10::intrusive_ptr<c10d::Store>&) {
    become_rank(rank, 2, server->getPort());
    const std::string message = refusal(
        {.backend = "gloo", .device = rank == 0 ? "cpu" : "tpu", .timeout = 20s, .log = [](const auto&) {}});
    require(message.find("init: rank 1 on ") == 0 && message.find("device \"tpu\"") != std::string::npos,
            message);
  }));
}

// As `sh -c './train && ./evaluate'` does in each worker.
TEST_CASE("programs that follow each other in every worker each meet, whichever rank comes first") {
  const std::string backend = GENERATE("shm", "gloo");
  const auto server = serve();
  CHECK(testing::in_processes(2, [&](int rank, const c10::intrusive_ptr<c10d::Store>&) {
    become_rank(rank, 2, server->getPort());
    const auto program = [&](int, const c10::intrusive_ptr<c10d::Store>&) {
      Context context =
          init({.backend = backend, .device = "cpu", .timeout = 20s, .log = [](const auto&) {}});
      std::vector<at::Tensor> ranks = {torch::ones({1})};
      context.process_group()->allreduce(ranks)->wait();
      require(ranks[0].item<float>() == 2, "both ranks took part");
      context.shutdown();
    };
    for (int i = 0; i < 10; ++i) require(testing::in_processes(1, program), "program " + std::to_string(i));
  }));
}

// On a GPU the program runs ahead of its work: a rank may hear of the stop when it is past the step already.
TEST_CASE("a rank that is past the agreed step takes the others along to its own") {
  const auto server = serve();
  CHECK(testing::in_processes(2, [&](int rank, const c10::intrusive_ptr<c10d::Store>&) {
    become_rank(rank, 2, server->getPort());
    Drain drain({.spread = 0ms, .meeting = 60s, .patience = 60s});
    const Context context =
        init({.backend = "gloo", .device = "cpu", .timeout = 60s, .log = [](const auto&) {}});
    std::int64_t step = 0;
    const auto stops = [&] {
      ++step;
      return drain.requested(context);
    };
    while (step < 5) require(!stops(), "nobody has asked");
    if (rank == 1) {
      context.store()->wait({"ddprun/drain/0/0/step"}, 60s);
      const std::vector<std::uint8_t> agreed = context.store()->get("ddprun/drain/0/0/step");
      const std::int64_t far = std::stoll(std::string(agreed.begin(), agreed.end())) + 50;
      while (step < far) require(!stops(), "this rank was not asked");
    }
    std::raise(SIGTERM);
    while (!stops()) {
    }
    require(drain.is_together(), "they did not meet");
    const auto key = [](int one) { return "stopped/" + std::to_string(one); };
    const std::string mine = std::to_string(step);
    context.store()->set(key(rank), std::vector<std::uint8_t>(mine.begin(), mine.end()));
    context.store()->wait({key(1 - rank)}, 60s);
    const std::vector<std::uint8_t> theirs = context.store()->get(key(1 - rank));
    require(mine == std::string(theirs.begin(), theirs.end()), "they stopped after different steps");
  }));
}

TEST_CASE("a second Drain of a process agrees on a step of its own") {
  const auto server = serve();
  CHECK(testing::in_processes(2, [&](int rank, const c10::intrusive_ptr<c10d::Store>&) {
    become_rank(rank, 2, server->getPort());
    const Context context =
        init({.backend = "gloo", .device = "cpu", .timeout = 60s, .log = [](const auto&) {}});
    for (const int number : {0, 1}) {
      Drain drain({.spread = 0ms, .meeting = 60s, .patience = 60s});
      int drained = 0;
      drain.on_drain([&] { ++drained; });
      for (std::int64_t step = 1; !drain.requested(context); ++step) {
        if (step == 20) std::raise(SIGTERM);
      }
      require(drain.is_together() && drained == 1, "the ranks met");
      require(context.store()->check({"ddprun/drain/0/" + std::to_string(number) + "/step"}),
              "a step of its own");
    }
  }));
}

// All groups of a rank share one client of the store. With waits that keep it for themselves, one rank's first thread
// and the other's second soon each wait for what the other rank's client would have to bring.
TEST_CASE("groups that wait through the store at the same time do not wait for each other") {
  const auto server = serve();
  CHECK(testing::in_processes(2, [&](int rank, const c10::intrusive_ptr<c10d::Store>&) {
    become_rank(rank, 2, server->getPort());
    const Context context =
        init({.backend = "gloo", .device = "cpu", .timeout = 20s, .log = [](const auto&) {}});
    const std::array groups = {new_group(context), new_group(context)};
    std::array<std::vector<Group>, 2> made;
    std::array<std::string, 2> failures;
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < groups.size(); ++i) {
        threads.emplace_back([&, i] {
          try {
            // They stay until all are made: one rank's end would be the other's that is still connecting.
            for (int round = 0; round < 20; ++round) made[i].push_back(new_group(groups[i]));
          } catch (const std::exception& error) {
            failures[i] = error.what();
          }
        });
      }
    }
    require(failures[0].empty() && failures[1].empty(), failures[0] + failures[1]);
  }));
}
