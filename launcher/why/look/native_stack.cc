#include "launcher/why/look/native_stack.h"

#include "launcher/why/look/stopped_threads.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elfutils/libdwfl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace ddprun::launcher::why {
namespace {

constexpr std::size_t kMostWalked = 64;
/// From when threads were asked to stop until they go on.
constexpr std::chrono::milliseconds kWalkLimit{50};
/// For a moment at which the main thread may be stopped, and for a walk that gets to its end.
constexpr std::chrono::milliseconds kPatience{300};

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

/// None: it may not be stopped.
std::optional<Walks> walk_process(const Libdw& dw, Dwfl* session, pid_t pid, const ProcessLook& look) {
  // On a machine with other work to do a thread may not stop in time, or a walk not end; the next one mostly does.
  const SteadyTime deadline = std::chrono::steady_clock::now() + kPatience;
  StoppedThreads threads(pid);
  std::optional<Walks> best;
  double stopped_s = 0;
  while (threads.await_calm(deadline)) {
    Walks walks = walk_threads(dw, session, threads, look);
    stopped_s += walks.stopped_s;
    const bool is_whole = walks.has_whole(pid);
    const double stop_s = walks.stopped_s;
    if (!best || is_whole || walks.of_threads.size() > best->of_threads.size()) best = std::move(walks);
    best->stopped_s = stopped_s;
    if (is_whole || std::chrono::steady_clock::now() >= deadline) break;
    std::this_thread::sleep_for(std::chrono::duration<double>(stop_s));  // it has work to do, too
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
