#include "tests/integration/rpc/rpc_functions.h"

#include <ddprun/exception.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/rpc/rref_context.h>
#include <torch/library.h>
#include <torch/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>

namespace remote_calls {

namespace rpc = ddprun::rpc;

namespace {

struct OfThisProgram : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void throw_this(const std::string& kind) {
  if (kind == "out_of_range") throw std::out_of_range("row 7 of 3");
  if (kind == "config") throw ddprun::Exception(ddprun::ErrorCode::kConfig, "no such layer");
  if (kind == "index") TORCH_CHECK_INDEX(false, "index 9 is too large");
  if (kind == "own") throw OfThisProgram("a class of this program");
  throw 7;
}

rpc::Future<std::int64_t>::Promise& promise() {
  static auto* const one = new rpc::Future<std::int64_t>::Promise;
  return *one;
}

std::atomic<int> begun = 0;
std::atomic<int> ended = 0;

std::int64_t block() {
  ++begun;
  begun.notify_all();
  const std::int64_t value = promise().future().wait();
  ++ended;
  return value;
}

std::atomic<bool> static_is_gone = false;
struct Static {
  ~Static() { static_is_gone = true; }
};

/// std::cout may be gone as well.
void say_at_exit(std::string_view text) { std::ignore = ::write(STDOUT_FILENO, text.data(), text.size()); }

void use_static(std::int64_t milliseconds) {
  static const Static one;
  const auto begin = std::chrono::steady_clock::now();
  while (!static_is_gone &&
         std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(milliseconds))
    std::this_thread::yield();
  if (milliseconds > 0) say_at_exit(static_is_gone ? "its static was destroyed\n" : "its static was there\n");
}

std::string describe(const std::string& text, const std::vector<std::int64_t>& numbers, double factor,
                     bool flag) {
  return fmt::format("{} {} {} {}", text, fmt::join(numbers, "+"), factor, flag);
}

std::int64_t relay(const std::string& to, std::int64_t value) {
  return rpc::rpc_sync<std::int64_t>(to, "aten::neg", value);
}

float sum_of_terms(const Terms& terms) {
  float sum = 0;
  for (const auto& [reference, number] : terms)
    sum += static_cast<float>(number) + (reference ? reference->to_here().sum().item<float>() : 0);
  return sum;
}

void add_picks(torch::Library& library) {
  library.def("pick.int(int value) -> int", [](std::int64_t value) { return value; });
  library.def("pick.str(str value) -> str", [](std::string value) { return value; });
}

TORCH_LIBRARY(test_library, library) {
  library.def("halve(Tensor input) -> Tensor", [](const at::Tensor& input) { return input / 2; });
  add_picks(library);
}

}  // namespace

void load_library_of_one_rank() {
  static torch::Library library(torch::Library::DEF, "of_one_rank", std::nullopt, __FILE__, __LINE__);
  add_picks(library);
}

void release() { promise().set(42); }
void wait_until_blocked() { begun.wait(0); }

at::Tensor add(at::Tensor left, at::Tensor right) { return left + right; }

const rpc::Function<at::Tensor(at::Tensor, at::Tensor)> kAdd("test::add", add);
const rpc::Function<void()> kNothing("test::nothing", [] {});
const rpc::Function<std::string(std::string, std::vector<std::int64_t>, double, bool)> kDescribe(
    "test::describe", describe);
const rpc::Function<void(std::string)> kThrow("test::throw", throw_this);
const rpc::Function<std::int64_t(std::string, std::int64_t)> kRelay("test::relay", relay);
const rpc::Function<rpc::Future<std::int64_t>()> kLater("test::later", [] { return promise().future(); });
const rpc::Function<void()> kRelease("test::release", release);
const rpc::Function<std::int64_t()> kBlock("test::block", block);
const rpc::Function<void(rpc::RRef<at::Tensor>)> kTouch("test::touch",
                                                        [](const rpc::RRef<at::Tensor>&) { ++ended; });
const rpc::Function<std::int64_t()> kEnded("test::ended", [] { return ended.load(); });
const rpc::Function<std::int64_t()> kOwned("test::owned", [] {
  return std::stoll(torch::distributed::rpc::RRefContext::getInstance().getDebugInfo().at("num_owner_rrefs"));
});
const rpc::Function<c10::IValue()> kAnything("test::anything", [] { return c10::IValue(torch::ones({3})); });
const rpc::Function<std::int64_t(rpc::RRef<c10::IValue>)> kSizeOfAnything(
    "test::size_of_anything",
    [](const rpc::RRef<c10::IValue>& rref) { return rref.to_here().toTensor().numel(); });
const rpc::Function<rpc::RRef<at::Tensor>(at::Tensor)> kKeep("test::keep", [](const at::Tensor& value) {
  return rpc::RRef<at::Tensor>::of(value);
});
const rpc::Function<double(rpc::RRef<at::Tensor>)> kSum("test::sum", [](const rpc::RRef<at::Tensor>& rref) {
  return rref.local_value().sum().item<double>();
});
const rpc::Function<at::Tensor(rpc::RRef<at::Tensor>)> kCopy("test::copy",
                                                             [](const rpc::RRef<at::Tensor>& rref) {
                                                               return rref.to_here();
                                                             });
const rpc::Function<at::Tensor(std::int64_t)> kZeros("test::zeros",
                                                     [](std::int64_t size) { return torch::zeros({size}); });
const rpc::Function<at::Tensor(std::string, at::Tensor)> kAddOn("test::add_on", [](const std::string& to,
                                                                                   const at::Tensor& value) {
  return rpc::rpc_sync(to, kAdd, value, value);
});
const rpc::Function<c10::IValue(std::int64_t)> kKeepAndGive("test::keep_and_give", [](std::int64_t size) {
  const at::Tensor zeros = torch::zeros({size});
  return c10::IValue(c10::ivalue::Tuple::create({rpc::RRef<at::Tensor>::of(zeros).raw(), zeros}));
});
const rpc::Function<Pair(at::Tensor, std::int64_t)> kPair("test::pair",
                                                          [](const at::Tensor& first, std::int64_t second) {
                                                            return Pair{first, second};
                                                          });
const rpc::Function<std::int64_t(rpc::RRef<Pair>)> kSecond("test::second", [](const rpc::RRef<Pair>& pair) {
  return std::get<1>(pair.to_here());
});
const rpc::Function<std::string(rpc::RRef<std::string>)> kText("test::text",
                                                               [](const rpc::RRef<std::string>& text) {
                                                                 return text.local_value();
                                                               });
const rpc::Function<float(Terms)> kSumOfTerms("test::sum_of_terms", sum_of_terms);
const rpc::Function<void()> kLeave("test::leave", [] { rpc::shutdown(); });
const rpc::Function<void()> kDie("test::die", [] { std::raise(SIGKILL); });
const rpc::Function<void(std::int64_t)> kUseStatic("test::use_static", use_static);

}  // namespace remote_calls
