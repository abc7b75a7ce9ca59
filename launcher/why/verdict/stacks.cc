#include "launcher/why/verdict/stacks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ddprun::launcher::why {
namespace {

constexpr std::size_t kMostFrames = 4;

/// Frames of the C library and the interpreter tell nothing.
bool tells_nothing(const std::string& function) {
  static constexpr std::array<std::string_view, 12> kDull{"?",
                                                          "syscall",
                                                          "__futex",
                                                          "pthread_",
                                                          "__pthread",
                                                          "_PyEval",
                                                          "__libc",
                                                          "_start",
                                                          "clock_nanosleep",
                                                          "__nanosleep",
                                                          "std::condition_variable",
                                                          "std::__condvar"};
  // The call itself is told.
  static constexpr std::array<std::string_view, 8> kTold{"read",  "write",   "__read", "__write",
                                                         "wait4", "__wait4", "poll",   "__poll"};
  return std::find(kTold.begin(), kTold.end(), function) != kTold.end() ||
         std::any_of(kDull.begin(), kDull.end(),
                     [&](std::string_view dull) { return function.starts_with(dull); });
}

/// Whether `is_it` says so of a function on the main thread's stack.
template <class Predicate>
bool any_on_main(const RankFacts& facts, Predicate is_it) {
  return std::any_of(facts.native.begin(), facts.native.end(), [&](const NativeThread& thread) {
    return thread.tid == facts.pid && std::any_of(thread.functions.begin(), thread.functions.end(), is_it);
  });
}

}  // namespace

bool is_library(const std::string& file) {
  return file.find("/site-packages/") != std::string::npos ||
         file.find("/lib/python3") != std::string::npos || file.starts_with("<frozen") || file.empty();
}

bool is_torch(const std::string& file) { return file.find("/torch/") != std::string::npos; }

const PythonThread* main_python(const RankFacts& facts) {
  const auto main = std::find_if(facts.python.begin(), facts.python.end(), [&](const PythonThread& t) {
    return t.tid == facts.pid && !t.frames.empty();
  });
  if (main != facts.python.end()) return &*main;
  return facts.python.empty() || facts.python.front().frames.empty() ? nullptr : &facts.python.front();
}

std::vector<Frame> shown_frames(const std::vector<Frame>& frames) {
  std::vector<Frame> shown;
  for (const Frame& frame : frames) {
    if (!is_library(frame.file)) shown.push_back(frame);
  }
  if (shown.empty())
    shown = frames;
  else if (is_library(frames.front().file) && !is_torch(frames.front().file))
    shown.insert(shown.begin(), frames.front());
  shown.resize(std::min(shown.size(), kMostFrames));
  return shown;
}

std::vector<Frame> native_frames(const RankFacts& facts) {
  std::vector<Frame> shown;
  for (const NativeThread& thread : facts.native) {
    if (thread.tid != facts.pid) continue;
    for (const std::string& function : thread.functions) {
      if (!tells_nothing(function) && shown.size() < kMostFrames) shown.push_back({function, {}, 0, {}});
    }
  }
  return shown;
}

bool has_native(const RankFacts& facts, std::string_view part) {
  return std::any_of(facts.native.begin(), facts.native.end(), [&](const NativeThread& thread) {
    return std::any_of(thread.functions.begin(), thread.functions.end(),
                       [&](const std::string& function) { return function.find(part) != std::string::npos; });
  });
}

bool has_main_native(const RankFacts& facts, std::string_view part) {
  return any_on_main(facts,
                     [&](const std::string& function) { return function.find(part) != std::string::npos; });
}

bool is_main_in(const RankFacts& facts, std::string_view name) {
  return any_on_main(facts, [&](const std::string& function) { return function == name; });
}

std::string torch_operation(const RankFacts& facts) {
  const PythonThread* const main = main_python(facts);
  if (main == nullptr) return {};
  for (const Frame& frame : main->frames) {
    if (!is_torch(frame.file)) break;
    if (frame.file.ends_with("/distributed_c10d.py")) return frame.function;
  }
  return {};
}

std::vector<Frame> child_frames(const RankFacts& facts) {
  for (const Child& child : facts.children) {
    if (!child.python.empty() && !child.python.front().frames.empty())
      return shown_frames(child.python.front().frames);
  }
  return {};
}

bool has_frame(const PythonThread* thread, std::string_view function) {
  return thread != nullptr &&
         std::any_of(thread->frames.begin(), thread->frames.end(), [&](const Frame& frame) {
           return frame.function == function || frame.function.ends_with(fmt::format(".{}", function));
         });
}

bool waits_for_an_item(const PythonThread* thread) {
  return thread != nullptr &&
         std::any_of(thread->frames.begin(), thread->frames.end(), [](const Frame& frame) {
           return frame.file.ends_with("/queue.py") &&
                  (frame.function == "get" || frame.function.ends_with(".get"));
         });
}

const PythonThread* holder_of_gil(const RankFacts& facts) {
  const auto holder = std::find_if(facts.python.begin(), facts.python.end(),
                                   [&](const PythonThread& t) { return t.owns_gil && t.tid != facts.pid; });
  return holder == facts.python.end() ? nullptr : &*holder;
}

bool waits_for_work(const PythonThread& thread) {
  static constexpr std::array<std::string_view, 8> kIdle{
      "/threading.py", "/queue.py",        "/concurrent/futures/thread.py",
      "/selectors.py", "/socketserver.py", "/multiprocessing/",
      "/asyncio/",     "/tqdm/_monitor.py"};
  return thread.frames.empty() || std::any_of(kIdle.begin(), kIdle.end(), [&](std::string_view file) {
           return thread.frames.front().file.find(file) != std::string::npos;
         });
}

}  // namespace ddprun::launcher::why
