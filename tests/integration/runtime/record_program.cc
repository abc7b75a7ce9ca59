// Ends the way its argument says, under ddprun::record.
#include <ddprun/exception.h>
#include <ddprun/record.h>

#include <c10/util/Exception.h>
#include <unistd.h>

#include <barrier>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

[[noreturn]] void throw_from_here() { throw std::out_of_range("seven is not a rank"); }

void all_at_once(const std::function<void()>& end) {
  constexpr int kThreads = 8;
  std::barrier together(kThreads);
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      together.arrive_and_wait();
      end();
    });
  }
}

int run(const std::string& how) {
  if (how == "throw") throw_from_here();
  if (how == "config") throw ddprun::Exception(ddprun::ErrorCode::kConfig, "this cannot be configured");
  if (how == "peer") TORCH_CHECK_WITH(DistBackendError, false, "the peer is gone");
  if (how == "watchdog")
    std::thread([] { TORCH_CHECK_WITH(DistBackendError, false, "it took too long"); }).join();
  if (how == "joinable") {
    try {  // or the stack is not unwound
      const std::thread forgotten([] { ::pause(); });
      throw_from_here();
    } catch (const std::exception&) {
      return 4;
    }
  }
  if (how == "terminate") std::terminate();
  if (how == "abort") std::abort();
  if (how == "crash") std::raise(SIGSEGV);
  if (how == "crowd") all_at_once([] { std::raise(SIGSEGV); });
  if (how == "throwing crowd") all_at_once([] { throw_from_here(); });
  return how == "three" ? 3 : 0;
}

}  // namespace

int main(int, char** argv) {
  return ddprun::record([&] { return run(argv[1]); });
}
