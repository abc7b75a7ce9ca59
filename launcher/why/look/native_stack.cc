#include "launcher/why/look/native_stack.h"

#include "launcher/why/look/proc_look.h"
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
#include <string_view>
#include <system_error>

namespace ddprun::launcher::why {
namespace {

constexpr std::size_t kMostStopped = 128;
constexpr std::size_t kMostWalked = 64;
/// Until all threads have stopped, and until they go on.
constexpr std::chrono::milliseconds kStopLimit{30}, kWalkLimit{50};

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

/// Threads that are stopped, and go on when it goes. Those that a stop would harm are left alone.
class StoppedThreads {
 public:
  StoppedThreads(pid_t pid, const ProcessLook& look) {
    const std::vector<ThreadLook>& threads = look.threads;
    std::vector<pid_t> seized;
    for (std::size_t i = 0; i < std::min(threads.size(), kMostStopped); ++i) {
      const pid_t tid = threads[i].tid;
      if (!bears_a_stop(tid)) continue;
      if (::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) == 0)
        seized.push_back(tid);
      else
        error_ = errno;
    }
    // Whoever is seized keeps its number until this process ends; who is not asked to stop never notices.
    if (start_of(pid) != look.started) return;
    std::vector<pid_t> asked;
    for (const pid_t tid : seized) {
      // It may have gone on since.
      if (bears_a_stop(tid) && ::access(fmt::format("/proc/{}/task/{}", pid, tid).c_str(), F_OK) == 0 &&
          ::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) == 0)
        asked.push_back(tid);
    }
    const SteadyTime deadline = began_ + kStopLimit;
    while (!asked.empty() && std::chrono::steady_clock::now() < deadline) {
      std::erase_if(asked, [&](pid_t tid) { return has_stopped(tid); });
      const timespec nap{0, 100'000};
      if (!asked.empty()) ::nanosleep(&nap, nullptr);
    }
  }
  ~StoppedThreads() { release(); }
  StoppedThreads(const StoppedThreads&) = delete;
  StoppedThreads& operator=(const StoppedThreads&) = delete;

  void release() {
    // A signal that arrived at this very moment is handed on; that of our own stop is none.
    for (const Stop& stop : stopped_) ::ptrace(PTRACE_DETACH, stop.tid, nullptr, stop.signal);
    stopped_.clear();
  }

  [[nodiscard]] std::vector<pid_t> tids() const {
    std::vector<pid_t> tids;
    for (const Stop& stop : stopped_) tids.push_back(stop.tid);
    return tids;
  }
  [[nodiscard]] int error() const { return error_; }
  [[nodiscard]] SteadyTime began() const { return began_; }

 private:
  struct Stop {
    pid_t tid = 0;
    long signal = 0;
  };

  bool has_stopped(pid_t tid) {
    int status = 0;
    const pid_t answer = ::waitpid(tid, &status, __WALL | WNOHANG);
    if (answer < 0) return true;  // gone
    if (answer == 0) return false;
    if (WIFSTOPPED(status)) stopped_.push_back({tid, (status >> 16) == 0 ? WSTOPSIG(status) : 0L});
    return true;
  }

  SteadyTime began_ = std::chrono::steady_clock::now();
  std::vector<Stop> stopped_;
  int error_ = 0;
};

struct Walk {
  const Libdw* dw = nullptr;
  SteadyTime end;
  std::vector<Dwarf_Addr> addresses;
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
  const bool goes_on = walk.addresses.size() < kMostWalked && std::chrono::steady_clock::now() < walk.end;
  return goes_on ? DWARF_CB_OK : DWARF_CB_ABORT;
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

  StoppedThreads stopped(pid, look);
  const std::vector<pid_t> tids = stopped.tids();
  if (tids.empty()) {
    return {.threads = {},
            .problem = stopped.error() != 0 ? fmt::format("its native stack may not be read: {}",
                                                          std::strerror(stopped.error()))
                                            : std::string("its threads did not stop for a native stack")};
  }
  if (dw.attach(session.get(), pid, true) != 0)
    return {.threads = {}, .problem = "libdw cannot read its native stack"};
  std::vector<Walk> walks;
  for (const pid_t tid : tids) {
    Walk& walk = walks.emplace_back();
    walk.dw = &dw;
    walk.end = stopped.began() + kWalkLimit;
    if (std::chrono::steady_clock::now() < walk.end) dw.frames(session.get(), tid, take_frame, &walk);
  }
  stopped.release();

  NativeStacks stacks;
  stacks.stopped_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - stopped.began()).count();
  for (std::size_t i = 0; i < tids.size(); ++i) {
    NativeThread& thread = stacks.threads.emplace_back();
    thread.tid = tids[i];
    const auto known =
        std::find_if(threads.begin(), threads.end(), [&](const auto& t) { return t.tid == tids[i]; });
    if (known != threads.end()) thread.name = known->name;
    for (const Dwarf_Addr address : walks[i].addresses) {
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
