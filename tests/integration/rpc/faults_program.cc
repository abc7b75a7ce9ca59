// Two or three ranks, and one way to go wrong, which rank 0 ("alpha") tells in sentences.
#include "tests/integration/rpc/agents_join.h"
#include "tests/integration/rpc/rpc_functions.h"
#include <ddprun/dist_autograd.h>
#include <ddprun/init.h>
#include <ddprun/record.h>
#include <ddprun/rpc.h>

#include <sys/wait.h>
#include <torch/csrc/distributed/rpc/rpc_agent.h>
#include <torch/csrc/distributed/rpc/rref_context.h>
#include <torch/custom_class.h>
#include <torch/types.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace rpc = ddprun::rpc;
using namespace remote_calls;          // NOLINT: a program of the tests
using namespace std::chrono_literals;  // NOLINT

namespace {

using Clock = std::chrono::steady_clock;

void say(const std::string& what) { std::cout << what << std::endl; }

void tell(const std::function<void()>& body) {
  try {
    body();
    say("nothing was thrown");
  } catch (const std::exception& error) {
    say(error.what());
  }
}

/// A rank that the launcher would end with the one that died goes on to say what it saw. Before all have met: a rank
/// may die right after that.
void outlive_the_others() { std::signal(SIGTERM, SIG_IGN); }

void peer_dies() {
  std::vector<rpc::Future<std::int64_t>> open;
  for (int i = 0; i < 3; ++i) open.push_back(rpc::rpc_async("beta", kLater));
  const auto begin = Clock::now();
  const auto last_words = rpc::rpc_async("beta", kDie);
  for (const auto& call : open) tell([&] { call.wait(); });
  tell([&] { last_words.wait(); });
  say(Clock::now() - begin < 5s ? "at once" : "too late");
  tell([] { rpc::rpc_sync("beta", kNothing); });
  tell([] { rpc::shutdown(); });
}

void dies_before_backward() {
  const at::Tensor weight = torch::ones({3}, torch::requires_grad());
  ddprun::dist_autograd::Context pass;
  const at::Tensor sum = rpc::rpc_sync("beta", kAdd, weight, weight).sum();
  tell([] { rpc::rpc_sync("beta", kDie); });
  tell([&] { pass.backward({sum}); });
}

void dies_before_backward_from_reference() {
  const at::Tensor weight = torch::ones({3}, torch::requires_grad());
  ddprun::dist_autograd::Context pass;
  const auto sum = rpc::RRef<at::Tensor>::of(rpc::rpc_sync("beta", kAdd, weight, weight).sum());
  tell([] { rpc::rpc_sync("beta", kDie); });
  tell([&] { sum.backward(pass.id()); });
}

/// The third worker computed for the second one.
void dies_behind_another(int rank) {
  if (rank != 0) return;
  const at::Tensor weight = torch::ones({3}, torch::requires_grad());
  ddprun::dist_autograd::Context pass;
  const at::Tensor sum = rpc::rpc_sync("beta", kAddOn, "gamma", weight).sum();
  tell([] { rpc::rpc_sync("gamma", kDie); });
  tell([&] { pass.backward({sum}); });
}

/// The third worker is gone before anybody leaves.
void waits_for_who_is_gone(int rank) {
  if (rank == 2) std::raise(SIGKILL);
  tell([] { rpc::shutdown(); });
}

/// Longer than Options::timeout.
void long_call_at_shutdown(int rank) {
  if (rank == 1) return tell([] { rpc::shutdown(); });
  const auto open = rpc::rpc_async({"beta", 60s}, kLater);
  std::thread releases([] {
    std::this_thread::sleep_for(5s);
    rpc::rpc_sync({"beta", 60s}, kRelease);
  });
  tell([] { rpc::shutdown(); });
  releases.join();
  tell([&] { open.wait(); });
}

/// The third worker dies where it waits for the first one to come.
void dies_while_it_waits(const ddprun::Context& context) {
  std::thread dies;
  if (context.rank() == 2) {
    dies = std::thread([store = context.store()->clone()] {
      store->wait({"die"});
      std::raise(SIGKILL);
    });
  }
  if (context.rank() == 0) {
    std::this_thread::sleep_for(1s);  // for the others to be in shutdown
    context.store()->set("die", std::vector<std::uint8_t>{1});
    tell([] {
      while (true) rpc::rpc_sync("gamma", kNothing);
    });
  }
  tell([] { rpc::shutdown(); });
}

/// It has no thread of the agent's.
void child_of_fork() {
  const pid_t child = ::fork();
  if (child == 0) {
    rpc::shutdown();
    tell([] { rpc::rpc_sync("beta", kNothing); });
#ifdef __SANITIZE_ADDRESS__  // it would search the memory of threads that this process has not for leaks
    ::_exit(3);
#endif
    std::exit(3);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  say(WIFEXITED(status) && WEXITSTATUS(status) == 3 ? "the child has ended" : "the child was lost");
}

void unknown() {
  tell([] { rpc::rpc_sync("gamma", kNothing); });
  tell([] { rpc::rpc_sync("beta", "nowhere::nothing"); });
  tell([] { rpc::rpc_sync("beta", "aten::no_such_operator"); });
  tell([] { rpc::rpc_sync("beta", "aten::add", "a text", true); });
  tell([] { rpc::rpc_sync("beta", "test::add", 1); });
  tell([] { rpc::rpc_sync("beta", "test::add", torch::ones({2}), "a text"); });
  tell([] { std::ignore = rpc::remote("beta", "test::sum", 0.5).to_here(); });
}

void too_slow() {
  const auto begin = Clock::now();
  tell([] { rpc::rpc_sync({"beta", 50ms}, kLater); });
  say(Clock::now() - begin < 5s ? "in time" : "too late");
  rpc::rpc_sync("beta", kRelease);
}

void too_large() {
  tell([] { rpc::rpc_sync("beta", kAdd, torch::zeros({1024}), torch::zeros({1024})); });
  tell([] { std::ignore = rpc::rpc_sync("beta", kZeros, 2048); });
}

/// All of whose references were given back.
void leave_at_once() {
  const auto begin = Clock::now();
  rpc::shutdown();
  say(Clock::now() - begin < 30s ? "leaves at once" : "waits");
}

/// What is refused holds no reference that shutdown would wait for.
void refused_with_references() {
  const auto value = rpc::remote("beta", kZeros, 3);
  const auto own = rpc::RRef<at::Tensor>::of(torch::zeros({3}));
  const at::Tensor large = torch::zeros({2048});
  tell([&] { rpc::rpc_sync("beta", "test::nothing", value.raw(), large); });
  tell([&] { rpc::rpc_sync("beta", "test::nothing", own.raw(), large); });
  tell([&] { rpc::remote("alpha", kAdd, large, large); });
  tell([&] { rpc::remote<at::Tensor>("alpha", "aten::no_such_operator", 1); });
  tell([&] { std::ignore = rpc::rpc_sync("beta", kKeepAndGive, 2000); });
  leave_at_once();
}

/// A function that failed, or will, through a reference to its result.
void failed_references() {
  tell([] { rpc::remote("beta", kZeros, -1).rpc_sync(kSum); });
  const auto failed = rpc::remote("beta", kZeros, -1);
  tell([&] { std::ignore = failed.to_here(); });
  tell([&] { failed.rpc_sync(kSum); });
  const auto own = rpc::remote({"alpha", 50ms}, kLater);
  tell([&] { std::ignore = own.to_here(); });
  rpc::rpc_sync("alpha", kRelease);
  {
    const std::int64_t before = rpc::rpc_sync("beta", kOwned);
    const auto late = rpc::remote({"beta", 50ms}, kBlock);
    tell([&] { std::ignore = late.to_here(50ms); });
    rpc::rpc_sync("beta", kRelease);
    const auto begin = Clock::now();
    while (rpc::rpc_sync("beta", kOwned) == before && Clock::now() - begin < 20s) continue;
  }
  leave_at_once();
}

bool comes_true(const std::function<bool()>& condition) {
  const auto begin = Clock::now();
  while (Clock::now() - begin < 20s) {
    if (condition()) return true;
  }
  return false;
}

/// Drops the reference when it took too long, has the function end, and asks its owner for the value.
template <class T>
void give_up(std::optional<rpc::RRef<T>> late, const std::function<void()>& let_it_end) {
  const std::int64_t ended = rpc::rpc_sync("beta", kEnded);
  say(comes_true([&] { return late->confirmed_by_owner(); }) ? "too late" : "in time");
  late.reset();
  for (int i = 0; i < 100; ++i) rpc::rpc_sync("beta", kNothing);
  let_it_end();
  say(comes_true([&] { return rpc::rpc_sync("beta", kEnded) > ended; }) ? "ended" : "did not end");
  for (int i = 0; i < 100; ++i) rpc::rpc_sync("beta", kNothing);
  say(comes_true([] { return rpc::rpc_sync("beta", kOwned) == 0; }) ? "dropped" : "kept");
}

/// One whose function runs, and one whose function has not begun, for its argument's owner is busy.
void given_up(const ddprun::Context& context) {
  give_up(std::optional(rpc::remote({"beta", 50ms}, kBlock)), [] { rpc::rpc_sync("beta", kRelease); });
  const auto value = rpc::remote("gamma", kZeros, 3);
  std::ignore = value.to_here();
  const auto blocked = rpc::rpc_async("gamma", kBlock);
  context.store()->wait({"gamma is busy"});
  give_up(std::optional(rpc::remote({"beta", 50ms}, kTouch, value)), [&] {
    context.store()->set("alpha has given up", std::vector<std::uint8_t>{1});
    blocked.wait();
  });
}

void is_busy(const ddprun::Context& context) {
  wait_until_blocked();
  context.store()->set("gamma is busy", std::vector<std::uint8_t>{1});
  context.store()->wait({"alpha has given up"});
  release();
}

/// The owner of an argument answers only after libtorch has told it of the reference six times, in 14 seconds.
void owner_is_busy(const ddprun::Context& context) {
  if (context.rank() == 1)
    torch::distributed::rpc::RpcAgent::getCurrentRpcAgent()->setRpcTimeout(50ms);  // as by Options::timeout
  if (context.rank() == 2) {
    wait_until_blocked();
    context.store()->set("gamma is busy", std::vector<std::uint8_t>{1});
    context.store()->wait({"beta is called"});
    std::this_thread::sleep_for(15s);
    release();
  }
  if (context.rank() != 0) return;
  const auto value = rpc::remote("gamma", kZeros, 3);
  std::ignore = value.to_here();
  const auto blocked = rpc::rpc_async("gamma", kBlock);
  context.store()->wait({"gamma is busy"});
  const auto copied = rpc::rpc_async("beta", kCopy, value);
  context.store()->set("beta is called", std::vector<std::uint8_t>{1});
  tell([&] { copied.wait(); });
  blocked.wait();
}

/// Later than Options::timeout, where the others wait in the store.
void late_to_leave(int rank) {
  if (rank == 1) before_the_agents_join([] { std::this_thread::sleep_for(4s); });
  tell([] { rpc::shutdown(); });
}

[[noreturn]] void wait_in_vain() { throw std::runtime_error("wait timeout after 100000ms, keys: 0"); }

/// The leader when the other one has closed.
void waits_in_vain_to_leave(const ddprun::Context& context) {
  const bool leads = context.rank() == 0;
  before_the_agents_join([&] {
    if (leads) context.store()->wait({"beta has left"});
    wait_in_vain();
  });
  tell([] { rpc::shutdown(); });
  if (!leads) context.store()->set("beta has left", std::vector<std::uint8_t>{1});
}

void dies_while_it_leaves(int rank) {
  before_the_agents_join([rank] {
    if (rank == 1) std::raise(SIGKILL);
    try {
      while (true) rpc::rpc_sync("beta", kNothing);
    } catch (const std::exception&) {
      wait_in_vain();
    }
  });
  tell([] { rpc::shutdown(); });
}

void backward_from_what_failed() {
  const auto failed = rpc::remote("beta", kZeros, -1);
  tell([&] { std::ignore = failed.to_here(); });
  const ddprun::dist_autograd::Context pass;
  tell([&] { failed.backward(pass.id()); });
}

struct OfOneRank : torch::CustomClassHolder {};

/// A reference, whose class is registered where this is called.
c10::IValue keep_of_one_rank(bool in_list) {
  using Value = c10::intrusive_ptr<OfOneRank>;
  static const auto known_here = torch::class_<OfOneRank>("test", "OfOneRank");
  const auto value = c10::make_intrusive<OfOneRank>();
  return in_list ? rpc::RRef<std::vector<Value>>::of({value}).raw() : rpc::RRef<Value>::of(value).raw();
}
const rpc::Function<c10::IValue(bool)> kKeepOfOneRank("test::keep_of_one_rank", keep_of_one_rank);
const rpc::Function<c10::IValue(c10::IValue)> kGiveBack("test::give_back",
                                                        [](c10::IValue value) { return value; });
const rpc::Function<bool(c10::IValue)> kIsOwn("test::is_own", [](const c10::IValue& reference) {
  return reference.toRRef()->isOwner();
});

/// From its owner to the first worker, to the third one and back.
void class_of_one_rank() {
  for (const bool in_list : {false, true}) {
    tell([in_list] {
      const c10::IValue theirs = rpc::rpc_sync("beta", kKeepOfOneRank, in_list);
      const c10::IValue again = rpc::rpc_sync("gamma", kGiveBack, theirs);
      say(rpc::rpc_sync("beta", kIsOwn, again) ? "is its owner's own" : "is another's");
    });
  }
  leave_at_once();
}

const rpc::Function<void(rpc::RRef<at::Tensor>)> kSayStarted("test::say_started",
                                                             [](const rpc::RRef<at::Tensor>&) {
                                                               say("started");
                                                             });

/// The second worker, where a call waits until the owner of its argument, which is busy, has heard of it.
void leaves_under_a_waiting_call(const ddprun::Context& context) {
  if (context.rank() == 0) {
    const auto value = rpc::remote("gamma", kZeros, 3);
    std::ignore = value.to_here();
    std::ignore = rpc::rpc_async("gamma", kBlock);
    context.store()->wait({"gamma is busy"});
    const auto call = rpc::rpc_async("beta", kSayStarted, value);
    tell([&] { call.wait(); });
  }
  if (context.rank() == 1) {
    auto& references = torch::distributed::rpc::RRefContext::getInstance();
    say(comes_true([&] { return references.getDebugInfo().at("num_pending_users") == "1"; }) ? "waits"
                                                                                             : "never came");
    rpc::shutdown(false);
    context.store()->set("beta has left", std::vector<std::uint8_t>{1});
  }
  if (context.rank() == 2) {
    wait_until_blocked();
    context.store()->set("gamma is busy", std::vector<std::uint8_t>{1});
    context.store()->wait({"beta has left"});
    release();
  }
  rpc::shutdown(false);
}

/// Each is refused, and the last one joins all the same.
void joins_after_refusals(const ddprun::Context& context) {
  tell([&] { rpc::init_rpc("not a name", context); });
  tell([&] { rpc::init_rpc("alpha", context, {.timeout = -5ms}); });
  const std::string world_size = std::getenv("WORLD_SIZE");
  ::setenv("WORLD_SIZE", "many", 1);
  tell([&] { rpc::init_rpc("alpha"); });
  ::setenv("WORLD_SIZE", world_size.c_str(), 1);
  tell([&] {
    rpc::init_rpc("alpha", context);
    rpc::rpc_sync("alpha", kNothing);
    rpc::shutdown();
  });
}

/// The first one's own call is open while the third one dies.
void dies_during_a_long_call(const ddprun::Context& context) {
  if (context.rank() == 2) {
    context.store()->wait({"die"});
    std::raise(SIGKILL);
  }
  if (context.rank() == 0) {
    static const auto open = rpc::rpc_async({"beta", 60s}, kLater);
    context.store()->set("die", std::vector<std::uint8_t>{1});
  }
  tell([] { rpc::shutdown(); });
}

/// A reference to a value of the third worker, which is gone, is an argument of a call to the second one.
void passes_a_lost_reference() {
  const auto lost = rpc::remote("gamma", kZeros, 3);
  std::ignore = lost.to_here();
  tell([] { rpc::rpc_sync("gamma", kDie); });
  const auto begin = Clock::now();
  tell([&] { rpc::rpc_sync("beta", kCopy, lost); });
  tell([&] { std::ignore = rpc::remote("beta", kCopy, lost).to_here(); });
  say(Clock::now() - begin < 20s ? "in time" : "too late");
}

void misuse() {
  tell([] { rpc::rpc_sync("beta", kLeave); });
  tell([] { rpc::rpc_sync("beta", "a::::b"); });
  tell([] { rpc::rpc_sync({"beta", -5ms}, kNothing); });
  tell([] { rpc::rpc_sync("beta", kAdd, torch::zeros({2}).to_mkldnn(), torch::zeros({2})); });
  tell([] { rpc::rpc_sync("beta", kAdd, at::Tensor(), torch::zeros({2})); });
}

void open_at_shutdown(const ddprun::Context& context) {
  const auto open = rpc::rpc_async("beta", kLater);
  rpc::shutdown(false);
  tell([&] { open.wait(); });
  tell([] { rpc::rpc_sync("beta", kNothing); });
  context.store()->set("alpha has left", std::vector<std::uint8_t>{1});
}

void joins_twice(const ddprun::Context& context) {
  tell([&] { rpc::init_rpc("again", context); });
}

int run(const std::string& how) {
  ddprun::Context context = ddprun::init();
  if (how == "joins after refusals") {
    joins_after_refusals(context);
    return 0;
  }
  rpc::Options options;
  if (how == "too large" || how == "refused with references") options.largest_message = 4096;
  const std::vector<std::string> names{"alpha", "beta", "gamma"};
  if (how == "peer dies, by uv") options.transports = {"uv"};
  if (how == "unknown transport") {
    options.transports = {"pigeon"};
    tell([&] { rpc::init_rpc("alpha", context, options); });
    return 0;
  }
  if (how == "absent") {
    options.timeout = 3s;
    if (context.rank() == 0) tell([&] { rpc::init_rpc("alpha", context, options); });
    return 0;
  }
  if (how == "same name") {
    options.timeout = 20s;
    tell([&] { rpc::init_rpc("alpha", context, options); });
    return 0;
  }
  if (how == "no limit") options.timeout = 0s;
  if (how == "long call at shutdown") options.timeout = 3s;
  if (how == "late to leave") options.timeout = 3s;
  if (how == "given up" && context.rank() == 2) options.threads = 1;
  if (how == "owner is busy" && context.rank() == 2) options.threads = 1;
  if (how == "leaves under a waiting call" && context.rank() == 2) options.threads = 1;
  if (how != "restart") outlive_the_others();
  rpc::init_rpc(names[static_cast<std::size_t>(context.rank())], context, options);
  const std::map<std::string, std::function<void()>> ways{
      {"peer dies", peer_dies},
      {"peer dies, by uv", peer_dies},
      {"dies before backward", dies_before_backward},
      {"dies before backward from reference", dies_before_backward_from_reference},
      {"unknown", unknown},
      {"too slow", too_slow},
      {"too large", too_large},
      {"refused with references", refused_with_references},
      {"failed references", failed_references},
      {"given up", [&] { given_up(context); }},
      {"misuse", misuse},
      {"passes a lost reference", passes_a_lost_reference},
      {"class of one rank", class_of_one_rank},
      {"backward from what failed", backward_from_what_failed},
      {"child of fork", child_of_fork},
      {"open at shutdown", [&] { open_at_shutdown(context); }},
      {"no limit", [] { tell([] { rpc::rpc_sync("beta", kNothing); }); }},
      {"joins twice", [&] { joins_twice(context); }}};
  if (how == "restart" && context.restart_count() == 0 && context.rank() == 1) std::raise(SIGKILL);
  if (how == "restart" && context.rank() == 0) tell([] { rpc::rpc_sync("beta", kNothing); });
  if (how == "dies behind another") dies_behind_another(context.rank());
  if (how == "long call at shutdown") long_call_at_shutdown(context.rank());
  if (how == "dies during a long call") dies_during_a_long_call(context);
  if (how == "dies while it waits") dies_while_it_waits(context);
  if (how == "given up" && context.rank() == 2) is_busy(context);
  if (how == "owner is busy") owner_is_busy(context);
  if (how == "leaves under a waiting call") leaves_under_a_waiting_call(context);
  if (how == "late to leave") late_to_leave(context.rank());
  if (how == "waits in vain to leave") waits_in_vain_to_leave(context);
  if (how == "dies while it leaves") dies_while_it_leaves(context.rank());
  if (how == "waits for who is gone") waits_for_who_is_gone(context.rank());
  if (context.rank() == 0 && ways.contains(how)) ways.at(how)();
  if (how == "open at shutdown" && context.rank() == 1) context.store()->wait({"alpha has left"});
  if (how == "no shutdown") {
    static const auto kept = rpc::remote("beta", kZeros, 3);
    std::ignore = rpc::rpc_async("beta", kLater);
    return 0;
  }
  if (how == "ends under a function") {
    if (context.rank() == 1) {
      context.store()->wait({"beta is at work"});
      return 0;
    }
    rpc::rpc_sync("beta", kUseStatic, 0);
    std::ignore = rpc::rpc_async("beta", kUseStatic, 1000);
    rpc::rpc_sync("beta", kNothing);  // which came after
    context.store()->set("beta is at work", std::vector<std::uint8_t>{1});
    return 0;
  }
  if (how == "function does not return") {
    if (context.rank() == 1) {
      context.store()->wait({"beta is at work"});
      return 7;
    }
    std::ignore = rpc::rpc_async("beta", kBlock);
    rpc::rpc_sync("beta", kNothing);  // which came after
    context.store()->set("beta is at work", std::vector<std::uint8_t>{1});
    return 0;
  }
  rpc::shutdown(how != "open at shutdown");
  return 0;
}

}  // namespace

int main(int, char** argv) {
  return ddprun::record([&] { return run(argv[1]); });
}
