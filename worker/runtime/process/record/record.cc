// Two ways to die. An exception without a handler calls std::terminate where it was thrown, stack and all:
// that is why `record` catches nothing. A crash raises a signal: its handler works in memory set aside
// before, writes the file with the names as the linker has them, then once more with readable ones (which
// needs malloc, and malloc may be what crashed). What follows the first report may wait for another thread, so an
// alarm ends it; stderr that nobody reads costs what would be said there, and nothing else.
#include "rendezvous/base/env_contract.h"
#include "rendezvous/base/exit_codes.h"
#include "worker/runtime/checkpoint/unfinished.h"
#include "worker/runtime/process/record/error_file.h"
#include "worker/runtime/process/record/lost_peer.h"
#include <ddprun/exception.h>
#include <ddprun/record.h>

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <memory>
#include <typeinfo>

namespace ddprun {
namespace {

constexpr std::array kCrashSignals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr int kMaxFrames = 64;
constexpr unsigned kSecondsToTell = 2;
constexpr unsigned kSecondsToFlush = 1;
constexpr unsigned kSecondsForTheFirst = 2 * kSecondsToTell;
constexpr unsigned kSecondsForTheUnfinished =
    1 + static_cast<unsigned>(
            std::chrono::duration_cast<std::chrono::seconds>(runtime::kMostForTheUnfinished).count());

// What handlers need. Handlers have no argument of ours, hence the one pointer with static storage in this
// library.
struct Recorder {
  std::string path;
  runtime::FixedText stack, file;
  std::array<char, 256 * 1024> handler_stack{};
};
Recorder* recorder = nullptr;
volatile sig_atomic_t crash_signal = 0;
volatile sig_atomic_t code_of_the_end = 1;
std::atomic<pid_t> dying_thread = 0;
std::atomic<bool> is_reported = false;  // by std::terminate, which may wait for a checkpoint then

using Demangle = std::string (*)(const char* symbol);

void append_frame(void* address, Demangle demangle, runtime::FixedText& out) {
  Dl_info info{};
  out.append("  ");
  if (dladdr(address, &info) != 0 && info.dli_sname != nullptr) {
    if (demangle != nullptr) {
      out.append(demangle(info.dli_sname));
    } else {
      out.append(info.dli_sname);
    }
  } else {
    out.append("?");
  }
  if (info.dli_fname != nullptr) {
    out.append(" in ");
    const char* slash = std::strrchr(info.dli_fname, '/');
    out.append(slash == nullptr ? info.dli_fname : slash + 1);
    out.append(" +");
    out.append_number(reinterpret_cast<std::uintptr_t>(address) -
                      reinterpret_cast<std::uintptr_t>(info.dli_fbase));
  }
  out.append("\n");
}

void capture_stack(Demangle demangle, runtime::FixedText& out) {
  void* frames[kMaxFrames];
  const int count = backtrace(frames, kMaxFrames);
  out.clear();
  for (int i = 1; i < count; ++i) append_frame(frames[i], demangle, out);
}

std::string demangled(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(symbol, nullptr, nullptr, &status), &std::free);
  return status == 0 ? std::string(text.get()) : std::string(symbol);
}

void write_report(std::string_view message, Demangle demangle) {
  if (is_reported) return;
  capture_stack(demangle, recorder->stack);
  runtime::format_error_file(message, recorder->stack.view(),
                             static_cast<unsigned long long>(std::time(nullptr)), recorder->file);
  runtime::write_error_file(recorder->path.c_str(), recorder->file.view());
}

void die_of(int signal_number) {
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

std::string_view describe(int signal_number) {
  switch (signal_number) {
    case SIGSEGV:
      return "SIGSEGV: the program touched memory it does not have";
    case SIGBUS:
      return "SIGBUS: memory that is mapped could not be had (a full /dev/shm or a shortened file)";
    case SIGFPE:
      return "SIGFPE: an impossible integer operation, such as a division by zero";
    case SIGILL:
      return "SIGILL: an instruction this CPU does not have";
    case SIGABRT:
      return "SIGABRT: the program called abort";
    default:
      return "a signal";
  }
}

// There is one report, that of the first thread which dies. Others wait for the process to end, and not for
// ever: what they hold may be what the first one needs.
void let_the_first_report() {
  pid_t nobody = 0;
  const pid_t self = gettid();
  if (dying_thread.compare_exchange_strong(nobody, self) || nobody == self) return;
  for (unsigned left = kSecondsForTheFirst; left > 0;) left = sleep(left);
  if (!is_reported) return;
  for (unsigned left = kSecondsForTheUnfinished; left > 0;) left = sleep(left);
}

// A program may have blocked the alarm in all of its threads.
void set_deadline(unsigned seconds, void (*on_alarm)(int)) {
  signal(SIGALRM, on_alarm);
  sigset_t alarms;
  sigemptyset(&alarms);
  sigaddset(&alarms, SIGALRM);
  pthread_sigmask(SIG_UNBLOCK, &alarms, nullptr);
  alarm(seconds);
}

void die_of_the_crash(int) { die_of(crash_signal); }
void end_with_the_code(int) { _exit(code_of_the_end); }

// A pipe has room for PIPE_BUF bytes or is not ready: whoever does not read is waited for so long, and no longer.
void say(std::string_view text) {
  constexpr int kPatienceMs = 500;
  while (!text.empty()) {
    pollfd out{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    if (poll(&out, 1, kPatienceMs) != 1) return;
    const ssize_t count = write(STDERR_FILENO, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (count <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

void on_crash(int signal_number) {
  let_the_first_report();
  if (crash_signal != 0) return die_of(signal_number);  // the handler itself crashed, or the first one hangs
  crash_signal = signal_number;
  signal(SIGPIPE, SIG_IGN);
  const std::string_view message = describe(signal_number);
  write_report(message, nullptr);
  set_deadline(kSecondsToTell, die_of_the_crash);
  say("ddprun: ");
  say(message);
  say("\n");
  write_report(message, demangled);
  die_of(signal_number);
}

struct Cause {
  std::string text;
  int exit_code = 1;
};

Cause current_cause() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (type == nullptr) {
    // An exception that is on its way cannot be read here.
    return {.text = std::uncaught_exceptions() == 0
                        ? "std::terminate was called"
                        : "std::terminate was called during the unwinding of an exception, maybe because a "
                          "joinable thread was destroyed",
            .exit_code = 128 + SIGABRT};
  }
  const std::string name = demangled(type->name());
  try {
    std::rethrow_exception(std::current_exception());
  } catch (const Exception& error) {
    return {.text = name + ": " + error.what(), .exit_code = to_exit_code(error.code())};
  } catch (const std::exception& error) {
    return {.text = name + ": " + error.what(),
            .exit_code = runtime::means_lost_peer(error) ? to_exit_code(ErrorCode::kPeerLost) : 1};
  } catch (...) {
    return {.text = name};
  }
}

// The last act: stdout may be full, and a thread that waits in a stream (in fgets of a pipe, for ever) holds the lock
// that fflush waits for. stdout goes first for that.
void flush_output() {
  set_deadline(kSecondsToFlush, end_with_the_code);
  if (ftrylockfile(stdout) == 0) {
    fflush_unlocked(stdout);
    funlockfile(stdout);
  }
  fflush(nullptr);
}

[[noreturn]] void on_terminate() {
  let_the_first_report();
  const Cause cause = current_cause();
  write_report(cause.text, demangled);
  is_reported = true;
  code_of_the_end = cause.exit_code;
  signal(SIGPIPE, SIG_IGN);  // of a stderr whose reader is gone
  set_deadline(kSecondsToTell + kSecondsForTheUnfinished, end_with_the_code);
  // libtorch appends its own C++ stack to the message; on the terminal the first line is enough.
  say(fmt::format("ddprun: uncaught {}\n", cause.text.substr(0, cause.text.find('\n'))));
  runtime::wait_for_the_unfinished();
  flush_output();
  _exit(cause.exit_code);
}

void install_handlers() {
  const stack_t alternate{
      .ss_sp = recorder->handler_stack.data(), .ss_flags = 0, .ss_size = recorder->handler_stack.size()};
  sigaltstack(&alternate, nullptr);
  struct sigaction action {};
  action.sa_handler = on_crash;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  for (const int signal_number : kCrashSignals) sigaction(signal_number, &action, nullptr);
  std::set_terminate(on_terminate);
}

}  // namespace

void write_error_file(const std::exception& error) {
  const auto stack = std::make_unique<runtime::FixedText>();
  const auto file = std::make_unique<runtime::FixedText>();
  capture_stack(demangled, *stack);
  runtime::format_error_file(demangled(typeid(error).name()) + ": " + error.what(), stack->view(),
                             static_cast<unsigned long long>(std::time(nullptr)), *file);
  runtime::write_error_file(process_env(env_name::kErrorFile).value_or("").c_str(), file->view());
}

void write_error_file(const std::string& message) {
  const auto file = std::make_unique<runtime::FixedText>();
  runtime::format_error_file(message, {}, static_cast<unsigned long long>(std::time(nullptr)), *file);
  runtime::write_error_file(process_env(env_name::kErrorFile).value_or("").c_str(), file->view());
}

int record(const std::function<int()>& main) {
  static const std::unique_ptr<Recorder> owner = std::make_unique<Recorder>();
  recorder = owner.get();
  recorder->path = process_env(env_name::kErrorFile).value_or("");
  void* warm_up[1];
  backtrace(warm_up, 1);  // the first call loads libgcc, which a handler should not do
  install_handlers();
  return main();
}

}  // namespace ddprun
