#include "launcher/why/verdict/doing_words.h"

#include "launcher/text/text.h"
#include "launcher/why/facts/collective_text.h"
#include "launcher/why/look/system_calls.h"
#include "launcher/why/verdict/stacks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ddprun::launcher::why {

std::string place(const Object& object) {
  std::string text = printable(object.path);
  if (!object.mount.empty()) {
    text += fmt::format(" ({}{})", object.mount,
                        object.source.empty() || object.source == object.mount || object.source == "none"
                            ? std::string()
                            : ", " + object.source);
  }
  return text;
}

std::string rate(double bytes_per_s) {
  return fmt::format("{}/s", format_bytes(static_cast<std::uint64_t>(bytes_per_s)));
}

std::string call_words(const ThreadLook& main, const Object& object) {
  const SystemCall& call = main.call;
  const std::string name = name_of_call(call.number);
  const bool is_pipe = main.wait_channel.find("pipe_") != std::string::npos;
  const bool is_fifo_open = main.wait_channel.find("wait_for_partner") != std::string::npos;
  if (is_fifo_open)
    return fmt::format("waits in open() of {}, a FIFO that nobody has opened for the other direction",
                       printable(object.path));
  if (is_sleep(call.number)) return fmt::format("sleeps ({})", name);
  if (is_futex(call.number)) return "waits for a lock or for another thread of its own (futex)";
  if (is_wait_for_child(call.number)) return fmt::format("waits for a child process to end ({})", name);
  if (is_poll(call.number)) return fmt::format("waits in {}()", name);
  if (is_file_lock(call.number))
    return fmt::format(
        "waits for a lock of the file {}{}", place(object),
        object.other_end.empty() ? std::string() : fmt::format(", which {} holds", object.other_end));
  if (call.number < 0) return {};
  if (reads(call.number) && call.arguments[0] == 0)
    return fmt::format("waits for input on its standard input ({})",
                       object.path.empty() ? "closed" : printable(object.path));
  if (object.path.starts_with("pipe:")) {
    const std::string& other = object.other_end;
    if (other.empty())
      return reads(call.number)
                 ? fmt::format("waits in {}() of a pipe into which nobody else writes", name)
                 : fmt::format("is blocked in {}() to a pipe that is full, which nobody else reads", name);
    return reads(call.number)
               ? fmt::format("waits in {}() of a pipe into which {} writes nothing", name, other)
               : fmt::format("is blocked in {}() to a pipe that is full, which {} does not read", name,
                             other);
  }
  if (object.path.starts_with("socket:")) {
    return fmt::format("waits in {}() of a socket{}", name,
                       object.other_end.empty() ? std::string() : " to " + object.other_end);
  }
  if (is_pipe && object.path.starts_with('/') && (reads(call.number) || writes(call.number)))
    return reads(call.number)
               ? fmt::format("waits in {}() of {}, a FIFO into which nobody writes", name,
                             printable(object.path))
               : fmt::format("is blocked in {}() to {}, a FIFO that is full, which nobody reads", name,
                             printable(object.path));
  if (!object.path.empty()) return fmt::format("is in {}() of {}", name, place(object));
  return fmt::format("is in {}()", name);
}

std::string child_name(const Child& child) {
  return fmt::format("pid {} ({})", child.pid, printable(child.name));
}

std::string child_does(const Child& child) {
  if (child.state == "T") return "is stopped by a signal";
  if (child.state == "t") return "is stopped by a debugger";
  if (child.state == "Z") return "has ended";
  if (child.is_busy && child.bytes_per_s > 0)
    return fmt::format("reads or writes ({})", rate(child.bytes_per_s));
  if (child.is_busy) return "computes";
  const ThreadLook look{.tid = 0, .name = {}, .state = child.state, .wait_channel = {}, .call = child.call};
  return call_words(look, child.object);
}

std::string children_words(const RankFacts& facts) {
  const int awaited = awaited_child(facts.second.threads.front().call);
  const bool is_there = std::any_of(facts.children.begin(), facts.children.end(),
                                    [&](const Child& child) { return child.pid == awaited; });
  std::vector<std::string> texts;
  for (const Child& child : facts.children) {
    if (is_there && child.pid != awaited) continue;
    if (!is_there && child.name == "pt_main_thread" && facts.children.size() > 1) continue;
    const std::string does = child_does(child);
    texts.push_back(does.empty() ? child_name(child) : fmt::format("{} {}", child_name(child), does));
  }
  constexpr std::size_t kMost = 4;
  texts.resize(std::min(texts.size(), kMost));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string helpers_words(const RankFacts& facts) {
  const PythonThread* const main = main_python(facts);
  const auto is_at_work = [&](const PythonThread& thread) {
    return &thread != main && !waits_for_work(thread);
  };
  // Libraries have threads of their own that wait for ever: one that is in the program itself says more.
  auto at_work = std::find_if(facts.python.begin(), facts.python.end(), [&](const PythonThread& thread) {
    return is_at_work(thread) && std::any_of(thread.frames.begin(), thread.frames.end(),
                                             [](const Frame& frame) { return !is_library(frame.file); });
  });
  if (at_work == facts.python.end())
    at_work = std::find_if(facts.python.begin(), facts.python.end(), is_at_work);
  if (at_work != facts.python.end()) {
    const Frame frame = shown_frames(at_work->frames).front();
    const std::string line(trim_blanks(frame.source));
    return fmt::format("; its thread {} is in {} at {}:{}{}{}", printable(at_work->name),
                       printable(frame.function), printable(frame.file.substr(frame.file.rfind('/') + 1)),
                       frame.line, line.empty() ? "" : ": ", printable(shorten(line, 80)));
  }
  const std::string children = children_words(facts);
  return children.empty() ? std::string() : "; its processes: " + children;
}

std::string message_words(const Collective& message) {
  const bool is_known = message.peer >= 0 && is_world(message.group);
  return fmt::format("waits in {} for {}", message.operation,
                     is_known ? fmt::format("rank {}", message.peer) : std::string("another rank"));
}

std::string plural(const std::string& words) {
  const std::size_t end = std::min(words.find(' '), words.size());
  const std::string verb = words.substr(0, end);
  const std::string rest = words.substr(end);
  if (verb == "is") return "are" + rest;
  if (verb == "has") return "have" + rest;
  if (verb == "goes") return "go" + rest;
  return verb.ends_with('s') ? verb.substr(0, verb.size() - 1) + rest : words;
}

}  // namespace ddprun::launcher::why
