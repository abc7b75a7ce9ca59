#include "launcher/why/look/native_stack.h"

#include "launcher/why/look/proc_look.h"
#include "launcher/why/look/thread_state.h"
#include "rendezvous/base/read_text.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elfutils/libdwfl.h>
#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>

namespace ddprun::launcher::why {
namespace {

constexpr std::size_t kMostStopped = 128;
constexpr std::size_t kMostWalked = 64;
/// Until all threads have stopped, and until they go on.
constexpr std::chrono::milliseconds kStopLimit{30}, kWalkLimit{50};
/// For a moment at which the main thread may be stopped, and for a walk that gets to its end.
constexpr std::chrono::milliseconds kPatience{300};
constexpr std::chrono::nanoseconds kNap{2'000'000}, kShortNap{100'000};

using SteadyTime = std::chrono::steady_clock::time_point;

/// What is used of libdw.so.1, opened at run time: nothing else of ddprun needs it.
struct Libdw {
  decltype(&::dwfl_begin) begin = nullptr;
  decltype(&::dwfl_end) end = nullptr;
  decltype(&::dwfl_linux_proc_report) report = nullptr;
  decltype(&::dwfl_report_end) report_end = nullptr;
  decltype(&::dwfl_linux_proc_attach) attach = nullptr;
  decltype(&::dwfl_linux_proc_find_elf) find_elf = nullptr;
  decltype(&::dwfl_getthread_frames) frames = nullptr;
  decltype(&::dwfl_frame_pc) frame_pc = nullptr;
  decltype(&::dwfl_addrmodule) module_at = nullptr;
  decltype(&::dwfl_module_addrinfo) name_at = nullptr;
  decltype(&::dwfl_getmodules) modules = nullptr;
  decltype(&::dwfl_module_eh_cfi) eh_cfi = nullptr;
  decltype(&::dwfl_module_dwarf_cfi) dwarf_cfi = nullptr;

  template <class Function>
  static bool find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    return function != nullptr;
  }

  /// False: it is not there.
  bool open() {
    void* const library = ::dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);  // stays until the process ends
    return library != nullptr && find(library, "dwfl_begin", begin) && find(library, "dwfl_end", end) &&
           find(library, "dwfl_linux_proc_report", report) && find(library, "dwfl_report_end", report_end) &&
           find(library, "dwfl_linux_proc_attach", attach) &&
           find(library, "dwfl_linux_proc_find_elf", find_elf) &&
           find(library, "dwfl_getthread_frames", frames) && find(library, "dwfl_frame_pc", frame_pc) &&
           find(library, "dwfl_addrmodule", module_at) && find(library, "dwfl_module_addrinfo", name_at) &&
           find(library, "dwfl_getmodules", modules) && find(library, "dwfl_module_eh_cfi", eh_cfi) &&
           find(library, "dwfl_module_dwarf_cfi", dwarf_cfi);
  }
};

/// No separate debug information: it could be asked for over the network.
int find_no_debuginfo(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word,
                      char**) {
  return -1;
}

/// Calls that end with EINTR when their thread was stopped, also without a signal handler: signal(7), "Interruption of
/// system calls and library functions by stop signals". Those on sockets do where a time-out is set.
constexpr std::array kEndedByAStop{
    SYS_epoll_wait, SYS_epoll_pwait,   SYS_epoll_pwait2,  SYS_rt_sigtimedwait, SYS_semop,
    SYS_semtimedop, SYS_io_getevents,  SYS_accept,        SYS_accept4,         SYS_connect,
    SYS_recvfrom,   SYS_recvmsg,       SYS_recvmmsg,      SYS_sendto,          SYS_sendmsg,
    SYS_sendmmsg,   SYS_io_pgetevents, SYS_io_uring_enter};

/// These are, too, where their descriptor is a socket.
constexpr std::array kEndedOnASocket{SYS_read, SYS_write, SYS_readv, SYS_writev};

bool is_socket(pid_t tid, unsigned long descriptor) {
  std::error_code unreadable;
  const auto target =
      std::filesystem::read_symlink(fmt::format("/proc/{}/fd/{}", tid, descriptor), unreadable);
  return unreadable || target.native().starts_with("socket:");
}

/// Whether a stop does a thread no harm, at this moment.
bool bears_a_stop(pid_t tid) {
  // The number of the call comes first, then its arguments as 0x…; "running" of one that is in none.
  const std::string text = read_text(fmt::format("/proc/{}/syscall", tid));
  long call = -1;
  const char* const end = text.data() + text.size();
  const char* const after = std::from_chars(text.data(), end, call).ptr;
  if (std::find(kEndedByAStop.begin(), kEndedByAStop.end(), call) != kEndedByAStop.end()) return false;
  if (std::find(kEndedOnASocket.begin(), kEndedOnASocket.end(), call) == kEndedOnASocket.end()) return true;
  constexpr std::string_view kFirst = " 0x";
  unsigned long descriptor = 0;
  if (std::string_view(after, static_cast<std::size_t>(end - after)).starts_with(kFirst))
    std::from_chars(after + kFirst.size(), end, descriptor, 16);
  return !is_socket(tid, descriptor);
}

void nap(std::chrono::nanoseconds time) {
  const timespec left{0, time.count()};
  ::nanosleep(&left, nullptr);
}

/// Stops threads and lets them go on, as often as is asked. Those that a stop would harm are left alone.
class StoppedThreads {
 public:
  explicit StoppedThreads(pid_t pid) : pid_(pid) {}
  /// Who was asked and stops late is let go as soon as it does. One that was seized and then began what a stop would
  /// end is let go by a stop in a later moment: the kernel lets go of nobody that runs.
  ~StoppedThreads() {
    const SteadyTime deadline = std::chrono::steady_clock::now() + kPatience;
    while (true) {
      collect();
      release();
      if (seized_.empty() || !is_meant_ || std::chrono::steady_clock::now() >= deadline) return;
      ask();
      nap(kShortNap);
    }
  }
  StoppedThreads(const StoppedThreads&) = delete;
  StoppedThreads& operator=(const StoppedThreads&) = delete;

  /// Those of `look` that have stopped within kStopLimit are in tids() then.
  void stop(const ProcessLook& look) {
    began_ = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < std::min(look.threads.size(), kMostStopped); ++i) {
      const pid_t tid = look.threads[i].tid;
      if (is_in(seized_, tid) || !bears_a_stop(tid)) continue;
      if (::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) == 0)
        seized_.push_back(tid);
      else
        error_ = errno;
    }
    // Whoever is seized keeps its number until this process ends; who is not asked to stop never notices.
    is_meant_ = start_of(pid_) == look.started;
    if (!is_meant_) return;
    ask();
    while (true) {
      collect();
      if (asked_.empty() || std::chrono::steady_clock::now() >= began_ + kStopLimit) return;
      nap(kShortNap);
    }
  }

  /// Who has not stopped yet stays asked.
  void release() {
    for (const Stop& stop : stopped_) {
      // A signal that arrived at this very moment is handed on; that of our own stop is none.
      ::ptrace(PTRACE_DETACH, stop.tid, nullptr, stop.signal);
      std::erase(seized_, stop.tid);
    }
    stopped_.clear();
  }

  /// Lets go whoever stops late, or has been stopped by a signal, while there is time between two stops.
  void keep_clear() {
    collect();
    release();
  }

  /// The main thread first: there may be no time for all.
  [[nodiscard]] std::vector<pid_t> tids() const {
    std::vector<pid_t> tids;
    for (const Stop& stop : stopped_) tids.push_back(stop.tid);
    std::stable_partition(tids.begin(), tids.end(), [this](pid_t tid) { return tid == pid_; });
    return tids;
  }
  [[nodiscard]] int error() const { return error_; }
  [[nodiscard]] SteadyTime began() const { return began_; }

 private:
  struct Stop {
    pid_t tid = 0;
    long signal = 0;
  };

  static bool is_in(const std::vector<pid_t>& tids, pid_t tid) {
    return std::find(tids.begin(), tids.end(), tid) != tids.end();
  }

  void ask() {
    for (const pid_t tid : seized_) {
      // It may have gone on since.
      if (!is_in(asked_, tid) && bears_a_stop(tid) &&
          ::access(fmt::format("/proc/{}/task/{}", pid_, tid).c_str(), F_OK) == 0 &&
          ::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) == 0)
        asked_.push_back(tid);
    }
  }

  /// Also those that were not asked: a signal stops whoever is seized, and its end is seen by nobody else before.
  void collect() {
    const std::vector<pid_t> all = seized_;
    for (const pid_t tid : all) {
      if (!is_stopped(tid) && has_stopped(tid)) std::erase(asked_, tid);
    }
  }

  [[nodiscard]] bool is_stopped(pid_t tid) const {
    return std::any_of(stopped_.begin(), stopped_.end(), [tid](const Stop& stop) { return stop.tid == tid; });
  }

  bool has_stopped(pid_t tid) {
    int status = 0;
    const pid_t answer = ::waitpid(tid, &status, __WALL | WNOHANG);
    if (answer == 0) return false;
    const bool is_gone = answer < 0 || WIFEXITED(status) || WIFSIGNALED(status);
    if (is_gone) std::erase(seized_, tid);
    if (!is_gone && WIFSTOPPED(status))
      stopped_.push_back({tid, (status >> 16) == 0 ? WSTOPSIG(status) : 0L});
    return true;
  }

  pid_t pid_;
  SteadyTime began_;
  bool is_meant_ = false;  ///< nobody else has the number by now
  std::vector<pid_t> seized_;
  std::vector<pid_t> asked_;  ///< of those that are seized
  std::vector<Stop> stopped_;
  int error_ = 0;
};

struct Walk {
  const Libdw* dw = nullptr;
  SteadyTime end;
  pid_t tid = 0;
  std::vector<Dwarf_Addr> addresses;
  bool is_cut = false;  ///< by the time, not by kMostWalked
};

/// What one stop of all threads gave.
struct Walks {
  std::vector<Walk> of_threads;
  double stopped_s = 0;
  int error = 0;  ///< why a thread could not be seized

  /// Whether the thread's frames are there, down to the last.
  [[nodiscard]] bool has_whole(pid_t tid) const {
    return std::any_of(of_threads.begin(), of_threads.end(), [&](const Walk& walk) {
      return walk.tid == tid && !walk.addresses.empty() && !walk.is_cut;
    });
  }
};

/// Has libdw open the file of a module and find its tables, which it would do in the middle of a walk.
int open_module(Dwfl_Module* module, void**, const char*, Dwarf_Addr, void* argument) {
  const Libdw& dw = *static_cast<const Libdw*>(argument);
  Dwarf_Addr bias = 0;
  dw.eh_cfi(module, &bias);
  dw.dwarf_cfi(module, &bias);
  return DWARF_CB_OK;
}

int take_frame(Dwfl_Frame* frame, void* argument) {
  Walk& walk = *static_cast<Walk*>(argument);
  Dwarf_Addr address = 0;
  bool is_activation = false;
  if (!walk.dw->frame_pc(frame, &address, &is_activation)) return DWARF_CB_ABORT;
  walk.addresses.push_back(is_activation ? address : address - 1);
  walk.is_cut = std::chrono::steady_clock::now() >= walk.end;
  return walk.addresses.size() < kMostWalked && !walk.is_cut ? DWARF_CB_OK : DWARF_CB_ABORT;
}

Walks walk_threads(const Libdw& dw, Dwfl* session, StoppedThreads& threads, const ProcessLook& look) {
  Walks walks;
  threads.stop(look);
  walks.error = threads.error();
  for (const pid_t tid : threads.tids()) {
    Walk& walk = walks.of_threads.emplace_back();
    walk.dw = &dw;
    walk.tid = tid;
    walk.end = threads.began() + kWalkLimit;
    walk.is_cut = std::chrono::steady_clock::now() >= walk.end;
    if (!walk.is_cut) dw.frames(session, tid, take_frame, &walk);
  }
  threads.release();
  walks.stopped_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - threads.began()).count();
  return walks;
}

/// Waits for a moment at which a process may be stopped and its main thread bears it: one that asks and sleeps by
/// turns, as a rank does that waits for a key of the store, is in recvfrom(2) now and then. Where there is none the
/// others' stacks are had without the main thread's. False: it may not be stopped at all.
bool await_calm(pid_t pid, StoppedThreads& threads, SteadyTime deadline) {
  while (true) {
    threads.keep_clear();
    const bool is_over = std::chrono::steady_clock::now() >= deadline;
    if (is_over || bears_a_stop(pid)) {
      ProcessLook now = look_at_process(pid);
      if (now.tracer == ::getpid()) now.tracer = 0;  // of a thread that was asked and stops late
      if (may_be_stopped(now)) return true;
      if (is_over) return false;
    }
    nap(kNap);
  }
}

/// None: it may not be stopped.
std::optional<Walks> walk_process(const Libdw& dw, Dwfl* session, pid_t pid, const ProcessLook& look) {
  // On a machine with other work to do a thread may not stop in time, or a walk not end; the next one mostly does.
  const SteadyTime deadline = std::chrono::steady_clock::now() + kPatience;
  StoppedThreads threads(pid);
  std::optional<Walks> best;
  double stopped_s = 0;
  while (await_calm(pid, threads, deadline)) {
    Walks walks = walk_threads(dw, session, threads, look);
    stopped_s += walks.stopped_s;
    const bool is_whole = walks.has_whole(pid);
    const double stop_s = walks.stopped_s;
    if (!best || is_whole || walks.of_threads.size() > best->of_threads.size()) best = std::move(walks);
    best->stopped_s = stopped_s;
    if (is_whole || std::chrono::steady_clock::now() >= deadline) break;
    nap(std::chrono::nanoseconds(static_cast<std::int64_t>(stop_s * 1e9)));  // it has work to do, too
  }
  return best;
}

std::string demangle(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                         std::free);
  return status == 0 && text ? short_function_name(text.get()) : std::string(name);
}

}  // namespace

std::string short_function_name(const std::string& demangled) {
  std::string text;
  int depth = 0;
  for (std::size_t i = 0; i < demangled.size(); ++i) {
    const char c = demangled[i];
    const bool is_operator = text.ends_with("operator") && (c == '<' || c == '(' || c == '-');
    if (c == '(' && demangled.compare(i, 21, "(anonymous namespace)") == 0) {
      if (depth == 0) text += "(anonymous namespace)";
      i += 20;
    } else if (is_operator && depth == 0) {
      text += c;
      if (c == '(' && i + 1 < demangled.size()) text += demangled[++i];
    } else if (c == '<' || c == '(') {
      if (c == '(' && depth == 0) break;
      ++depth;
    } else if (c == '>' || c == ')') {
      --depth;
    } else if (depth == 0) {
      text += c;
    }
  }
  // A return type of a template stands before the name.
  const std::size_t space = text.find(' ');
  const bool has_type = space != std::string::npos && !text.starts_with("operator") &&
                        text.find("operator") == std::string::npos &&
                        text.find("(anonymous") == std::string::npos;
  return has_type ? text.substr(text.rfind(' ') + 1) : text;
}

NativeStacks native_stacks(pid_t pid, const ProcessLook& look) {
  const std::vector<ThreadLook>& threads = look.threads;
  Libdw dw;
  if (!dw.open())
    return {.threads = {}, .problem = "native stacks need libdw (Debian: apt-get install libdw1)"};
  char* no_path = nullptr;
  const Dwfl_Callbacks callbacks{.find_elf = dw.find_elf,
                                 .find_debuginfo = find_no_debuginfo,
                                 .section_address = nullptr,
                                 .debuginfo_path = &no_path};
  const std::unique_ptr<Dwfl, decltype(dw.end)> session(dw.begin(&callbacks), dw.end);
  if (!session || dw.report(session.get(), pid) != 0 || dw.report_end(session.get(), nullptr, nullptr) != 0)
    return {.threads = {}, .problem = "its mappings cannot be read for a native stack"};

  dw.modules(session.get(), open_module, &dw, 0);

  if (dw.attach(session.get(), pid, true) != 0)
    return {.threads = {}, .problem = "libdw cannot read its native stack"};

  const std::optional<Walks> walks = walk_process(dw, session.get(), pid, look);
  if (!walks) return {.threads = {}, .problem = "it may not be stopped for a native stack"};
  if (walks->of_threads.empty()) {
    return {.threads = {},
            .problem = walks->error != 0
                           ? fmt::format("its native stack may not be read: {}", std::strerror(walks->error))
                           : std::string("its threads did not stop for a native stack")};
  }

  NativeStacks stacks;
  stacks.stopped_s = walks->stopped_s;
  for (const Walk& walk : walks->of_threads) {
    NativeThread& thread = stacks.threads.emplace_back();
    thread.tid = walk.tid;
    const auto known =
        std::find_if(threads.begin(), threads.end(), [&](const auto& t) { return t.tid == walk.tid; });
    if (known != threads.end()) thread.name = known->name;
    for (const Dwarf_Addr address : walk.addresses) {
      GElf_Off offset = 0;
      GElf_Sym symbol{};
      Dwfl_Module* const module = dw.module_at(session.get(), address);
      const char* const name = module == nullptr
                                   ? nullptr
                                   : dw.name_at(module, address, &offset, &symbol, nullptr, nullptr, nullptr);
      thread.functions.push_back(name == nullptr ? std::string("?") : demangle(name));
    }
  }
  return stacks;
}

}  // namespace ddprun::launcher::why
