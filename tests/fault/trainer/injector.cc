// Breaks one rank of ddprun-worker from inside: preloaded, it stands before what the trainer calls in libddprun and
// libc. Without FAULT_RANK, or in any other process of the job, it passes everything on.
//
//   FAULT_RANK   the guilty one
//   FAULT_AT     start, connect, step, compute, update, shutdown (FAULT is then an act: acts.h); or a call of libc on a
//                path that has FAULT_PATH in it: open, read, write, fsync, rename, mkdir
//   FAULT        an act, or errno's number for a call to fail with; for read: "garbage"; "power": the process is
//                killed, and what it had not synced is lost, as if the power had failed: files below a folder of
//                checkpoints, folders that it made or renamed, with all in them
//   FAULT_UNSYNCED  a folder that somebody else has made and not synced, for "power"
//   FAULT_COUNT  at which of these it happens, the first is 1; for compute: how many times memory is allocated on the
//                main thread after the third step
#include "tests/fault/trainer/acts.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

using ddprun::testing::act;

constexpr long kStepBeforeComputing = 3;

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Read once, before main: nothing here may allocate when memory is what is to fail.
struct Fault {
  bool is_mine = std::strlen(variable("FAULT_RANK")) > 0 &&
                 std::strcmp(variable("FAULT_RANK"), variable("RANK")) == 0;
  const char* at = variable("FAULT_AT");
  const char* what = variable("FAULT");
  const char* path = variable("FAULT_PATH");
  long count = std::max(1L, std::atol(variable("FAULT_COUNT")));
  std::atomic<long> seen = 0;
  std::atomic<bool> computes = false;
  pid_t main_thread = ::gettid();
};

Fault& fault() {
  static Fault one;
  return one;
}

/// The start of a sanitizer calls libc, and so us, before there is an environment.
bool has_environment = false;

[[gnu::constructor]] void read_environment() {
  has_environment = true;
  fault();
}

bool is_at(const char* place) {
  return has_environment && fault().is_mine && std::strcmp(fault().at, place) == 0;
}

/// Whether it is to happen now, at one of the times that are counted.
bool happens(const char* place) { return is_at(place) && ++fault().seen == fault().count; }

/// The same of a call on `path`, which fails ever after.
bool fails(const char* place, const char* path) {
  if (!is_at(place) || std::strstr(path, fault().path) == nullptr || ++fault().seen < fault().count)
    return false;
  if (std::strcmp(fault().what, "hold") != 0) return true;
  act("hold");
  return false;
}

std::string path_of(int fd) {
  char link[64];
  char path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = ::readlink(link, path, sizeof path - 1);
  return {path, static_cast<std::size_t>(size < 0 ? 0 : size)};
}

bool fails_on(const char* place, int fd) { return is_at(place) && fails(place, path_of(fd).c_str()); }

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

/// What a disk may forget: bytes that were not synced, and names whose folder was not.
class Disk {
 public:
  Disk() {
    if (const std::string folder = variable("FAULT_UNSYNCED"); !folder.empty()) created_folder(folder);
  }
  void wrote(int fd) {
    if (watches()) note(path_of(fd), [this](const std::string& path) { unsynced_bytes_.insert(path); });
  }
  void created(const std::string& path) {
    note(path, [this](const std::string& one) { unsynced_names_.emplace_back("", one); });
  }
  void created_folder(const std::string& path) {
    if (!watches()) return;
    const std::lock_guard lock(mutex_);
    unsynced_names_.emplace_back("", path);
  }
  void renamed(const std::string& from, const std::string& to) {
    note(to, [&](const std::string& one) {
      if (unsynced_bytes_.erase(from) > 0) unsynced_bytes_.insert(one);
      unsynced_names_.emplace_back(from, one);
    });
  }
  void synced(int fd) {
    if (!watches()) return;
    const std::string path = path_of(fd);
    const std::lock_guard lock(mutex_);
    unsynced_bytes_.erase(path);
    std::erase_if(unsynced_names_, [&](const auto& name) { return folder_of(name.second) == path; });
  }
  void lose_power() {
    const std::lock_guard lock(mutex_);
    for (const std::string& path : unsynced_bytes_) static_cast<void>(::truncate(path.c_str(), 0));
    for (auto name = unsynced_names_.rbegin(); name != unsynced_names_.rend(); ++name) {
      const auto& [from, to] = *name;
      if (from.empty()) {
        std::error_code error;
        std::filesystem::remove_all(to, error);
      } else {
        real<int(const char*, const char*)>("rename")(to.c_str(), from.c_str());
      }
    }
    ::kill(::getpid(), SIGKILL);
  }

 private:
  static bool watches() {
    return has_environment && fault().is_mine && std::strcmp(fault().what, "power") == 0;
  }
  static std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }
  template <class Act>
  void note(const std::string& path, const Act& then) {
    if (!watches() || path.find("/checkpoints") == std::string::npos) return;
    const std::lock_guard lock(mutex_);
    then(path);
  }

  std::mutex mutex_;
  std::set<std::string> unsynced_bytes_;
  std::vector<std::pair<std::string, std::string>> unsynced_names_;  ///< from ("": it is new), to
};

Disk& disk() {
  static Disk one;
  return one;
}

/// What a call does that fails: errno's number, or an act.
int fail() {
  if (std::strcmp(fault().what, "power") == 0) disk().lose_power();
  const int number = std::atoi(fault().what);
  if (number == 0) act(fault().what);
  errno = number;
  return -1;
}

}  // namespace

// ---- libddprun, by the names that the linker knows

int recorded(const std::function<int()>& main) __asm__("_ZN6ddprun6recordERKSt8functionIFivEE");
int recorded(const std::function<int()>& main) {
  return real<int(const std::function<int()>&)>("_ZN6ddprun6recordERKSt8functionIFivEE")([&] {
    if (happens("start")) act(fault().what);
    return main();
  });
}

bool requested(void* drain, const void* context) __asm__("_ZN6ddprun5Drain9requestedERKNS_7ContextE");
bool requested(void* drain, const void* context) {
  static long steps = 0;
  if (happens("step")) act(fault().what);
  if (is_at("compute") && ++steps == kStepBeforeComputing) fault().computes = true;
  return real<bool(void*, const void*)>("_ZN6ddprun5Drain9requestedERKNS_7ContextE")(drain, context);
}

/// The trainer says it before an update of what it keeps in place, and before it writes a checkpoint.
void take_time(void* drain) __asm__("_ZN6ddprun5Drain9take_timeEv");
void take_time(void* drain) {
  if (happens("update")) act(fault().what);
  real<void(void*)>("_ZN6ddprun5Drain9take_timeEv")(drain);
}

void shut_down(void* context) __asm__("_ZN6ddprun7Context8shutdownEv");
void shut_down(void* context) {
  if (happens("shutdown")) act(fault().what);
  real<void(void*)>("_ZN6ddprun7Context8shutdownEv")(context);
}

void* operator new(std::size_t size) {
  if (has_environment && fault().computes && ::gettid() == fault().main_thread &&
      ++fault().seen == fault().count) {
    fault().computes = false;
    act(fault().what);
  }
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

// ---- libc

extern "C" {

int connect(int fd, const sockaddr* address, socklen_t size) {
  if (happens("connect")) act(fault().what);
  return real<int(int, const sockaddr*, socklen_t)>("connect")(fd, address, size);
}

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = va_arg(more, mode_t);
  va_end(more);
  if (fails("open", path)) return fail();
  const int fd = real<int(const char*, int, ...)>("open")(path, flags, mode);
  if (fd >= 0 && (flags & O_CREAT) != 0) disk().created(path);
  return fd;
}

ssize_t read(int fd, void* bytes, std::size_t size) {
  const bool is_broken = fails_on("read", fd);
  if (is_broken && std::strcmp(fault().what, "garbage") != 0) return fail();
  const ssize_t got = real<ssize_t(int, void*, std::size_t)>("read")(fd, bytes, size);
  if (is_broken && got > 0) std::memset(bytes, 0x5a, static_cast<std::size_t>(got));
  return got;
}

ssize_t write(int fd, const void* bytes, std::size_t size) {
  if (fails_on("write", fd)) return fail();
  disk().wrote(fd);
  return real<ssize_t(int, const void*, std::size_t)>("write")(fd, bytes, size);
}

int fsync(int fd) {
  if (fails_on("fsync", fd)) return fail();
  const int done = real<int(int)>("fsync")(fd);
  if (done == 0) disk().synced(fd);
  return done;
}

int rename(const char* from, const char* to) {
  if (fails("rename", to)) return fail();
  const int done = real<int(const char*, const char*)>("rename")(from, to);
  if (done == 0) disk().renamed(from, to);
  return done;
}

int mkdir(const char* path, mode_t mode) {
  if (fails("mkdir", path)) return fail();
  const int done = real<int(const char*, mode_t)>("mkdir")(path, mode);
  if (done == 0) disk().created_folder(path);
  return done;
}

}  // extern "C"
