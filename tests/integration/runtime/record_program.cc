// Ends the way its argument says, under ddprun::record.
#include "worker/runtime/checkpoint/unfinished.h"
#include <ddprun/exception.h>
#include <ddprun/record.h>

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <barrier>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
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

/// Returns when another thread of this process waits in fgets of a pipe into which nothing comes.
void read_a_pipe_for_ever() {
  static std::array<int, 2> ends;
  if (::pipe(ends.data()) != 0) std::abort();
  FILE* const stream = ::fdopen(ends[0], "r");
  std::thread([stream] {
    std::array<char, 80> line;
    [[maybe_unused]] const char* const nothing = std::fgets(line.data(), line.size(), stream);
  }).detach();
  while (::ftrylockfile(stream) == 0) ::funlockfile(stream);
}

/// Whoever writes on stderr from now on waits for ever.
void fill_stderr() {
  static std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_NONBLOCK) != 0) std::abort();
  while (::write(ends[1], "x", 1) == 1) {
  }
  ::fcntl(ends[1], F_SETFL, 0);
  ::dup2(ends[1], STDERR_FILENO);
}

/// Returns while another thread writes a checkpoint, longer than anybody is given to tell of its end.
void write_slowly() {
  auto unfinished = std::make_shared<const ddprun::runtime::Unfinished>();
  std::thread([unfinished = std::move(unfinished)] {
    std::this_thread::sleep_for(std::chrono::seconds(4));
    std::puts("written");
  }).detach();
}

int run(const std::string& how) {
  if (how == "throw") throw_from_here();
  if (how == "config") throw ddprun::Exception(ddprun::ErrorCode::kConfig, "this cannot be configured");
  if (how == "latin-1") throw ddprun::Exception(ddprun::ErrorCode::kConfig, "cannot open caf\xe9.bin");
  if (how == "long") {
    std::string text;
    for (int i = 0; i < 40'000; ++i) text += "\xc3\xa9";
    throw ddprun::Exception(ddprun::ErrorCode::kConfig, text);
  }
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
  if (how == "throw beside a reader") {
    read_a_pipe_for_ever();
    throw_from_here();
  }
  if (how == "throw with a log") {
    FILE* const log = std::fopen((std::string(std::getenv("TORCHELASTIC_ERROR_FILE")) + ".log").c_str(), "w");
    std::fputs("the last line", log);
    throw_from_here();
  }
  if (how.starts_with("full stderr")) fill_stderr();
  if (how == "full stderr, throw beside a checkpoint") {
    write_slowly();
    throw_from_here();
  }
  if (how == "gone stderr, throw") {
    std::array<int, 2> ends;
    if (::pipe(ends.data()) != 0) std::abort();
    ::close(ends[0]);
    ::dup2(ends[1], STDERR_FILENO);
    throw_from_here();
  }
  if (how == "full stderr, throw") throw_from_here();
  if (how == "full stderr, crash") std::raise(SIGSEGV);
  return how == "three" ? 3 : 0;
}

}  // namespace

int main(int, char** argv) {
  return ddprun::record([&] { return run(argv[1]); });
}
