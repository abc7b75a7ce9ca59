#include "launcher/report/diagnosis.h"

#include "launcher/output/plain_line.h"
#include "launcher/report/symptom.h"
#include "launcher/text/text.h"
#include "rendezvous/base/signal_name.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <array>

namespace ddprun::launcher {
namespace {

constexpr std::uint64_t kSmallShm = std::uint64_t{256} << 20;  // containers get 64 MiB unless told otherwise

constexpr std::size_t kLastLines = 20;  // that may tell of the end, where no exception does

struct Facts {
  const ExitStatus& status;
  const LastWords& words;
  const std::optional<LastException>& exception;
  const Evidence& evidence;
  std::string tail;  // what it said last, with what the exception says at its end

  [[nodiscard]] bool says(std::string_view text) const { return tail.find(text) != std::string_view::npos; }
  /// By others than us.
  [[nodiscard]] bool killed_by(int signal) const {
    return status.is_killed() && status.signal() == signal && words.stopped_with != signal;
  }
};

std::string what_it_said_last(const ExitStatus& status, const LastWords& words,
                              const std::optional<LastException>& exception) {
  const std::string_view after = words.after_traceback();
  if (exception && exception->is_of_this_end() && !exception->traceback.is_fatal) {
    const Traceback& said = exception->traceback;
    return fmt::format("{}\n{}\n{}\n{}\n", after, said.message, said.origin, said.exception);
  }
  // Stacks of C++ below what an aborted program says are long.
  if (status.is_killed() && status.signal() == SIGABRT) return std::string(words_of_abort(words, exception));
  return fmt::format("{}\n", fmt::join(last_lines(after, kLastLines), "\n"));
}

using Answer = std::optional<std::string>;

/// The rest of the last line that has `mark` in it, from the mark on.
std::string_view from_mark(std::string_view tail, std::string_view mark) {
  const std::size_t at = tail.rfind(mark);
  if (at == std::string_view::npos) return {};
  return tail.substr(at, tail.find('\n', at) - at);
}

std::string_view line_with(std::string_view tail, std::string_view mark) {
  const std::size_t at = tail.rfind(mark);
  if (at == std::string_view::npos) return {};
  const std::size_t before = tail.rfind('\n', at);
  const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
  return tail.substr(begin, tail.find('\n', at) - begin);
}

std::string core_phrase(const Facts& facts) {
  if (!facts.status.core_dumped()) return {};
  const std::string& pattern = facts.evidence.core_pattern;
  if (pattern.find("systemd-coredump") != std::string::npos) return "; a core was dumped: see coredumpctl";
  if (pattern.empty() || pattern[0] == '|') return "; a core was dumped";
  return fmt::format("; a core was dumped (pattern {})", pattern);
}

Answer out_of_memory(const Facts& facts) {
  if (!facts.killed_by(SIGKILL)) return {};
  const std::string limit =
      facts.evidence.memory_limit == 0
          ? ""
          : fmt::format(", whose limit is {}", format_bytes(facts.evidence.memory_limit));
  if (!facts.evidence.oom_kernel_line.empty()) {
    return fmt::format("out of memory: the kernel killed it ({})", facts.evidence.oom_kernel_line);
  }
  if (facts.evidence.oom_kill_in_cgroup) {
    return fmt::format("out of memory: the kernel killed a process of this cgroup{}", limit);
  }
  const std::string cpu =
      facts.evidence.cpu_limit == 0
          ? std::string()
          : fmt::format("its limit of CPU time (ulimit -t: {} s), ", facts.evidence.cpu_limit);
  return fmt::format(
      "killed from outside: by kill -9, a scheduler, {}or the kernel when memory ran out (look at dmesg; its "
      "log "
      "cannot be read from here or does not mention it)",
      cpu);
}

Answer cuda_out_of_memory(const Facts& facts) {
  const std::string_view line = line_with(facts.tail, "CUDA out of memory");
  if (line.empty()) return {};
  return fmt::format("out of GPU memory: {}", shorten(line, 200));
}

Answer full_disk(const Facts& facts) {
  if (!facts.says("No space left on device") && !facts.says("Disk quota exceeded")) return {};
  const bool is_quota = !facts.says("No space left on device");
  if (is_quota) return std::string("disk quota exceeded: free some of it, or write elsewhere");
  if (facts.evidence.full_disk.empty())
    return std::string("disk full: the worker could not write (No space left on device)");
  return fmt::format("disk full: {} has no free byte", facts.evidence.full_disk);
}

/// torch's own words when a data loader's process got the bus error.
Answer loader_bus_error(const Facts& facts) {
  if (!facts.says("insufficient shared memory")) return {};
  return fmt::format(
      "a data loader process found /dev/shm full ({}); make it larger (docker run --shm-size) or use fewer "
      "data loader workers",
      format_bytes(facts.evidence.shm_size));
}

Answer bus_error(const Facts& facts) {
  if (!facts.killed_by(SIGBUS)) return {};
  const Evidence& evidence = facts.evidence;
  // A page of a tmpfs file that cannot be had ends in SIGBUS, so a nearly full /dev/shm is the first suspect.
  if (evidence.shm_size > 0 && evidence.shm_free < evidence.shm_size / 50) {
    return fmt::format(
        "bus error with a full /dev/shm: {} of {} are used; make it larger (docker run --shm-size) or use "
        "fewer data loader workers",
        format_bytes(evidence.shm_size - evidence.shm_free), format_bytes(evidence.shm_size));
  }
  // What the dead worker held is free again by now, so that a small one is all that can be seen.
  if (evidence.shm_size > 0 && evidence.shm_size <= kSmallShm) {
    return fmt::format(
        "bus error: /dev/shm is only {} here, and may have been full; make it larger (docker run --shm-size) "
        "or use fewer data loader workers",
        format_bytes(evidence.shm_size));
  }
  return fmt::format("bus error: a mapped file was cut short or its disk failed{}", core_phrase(facts));
}

Answer segmentation_fault(const Facts& facts) {
  if (!facts.killed_by(SIGSEGV)) return {};
  return fmt::format("segmentation fault: it touched memory that is not its own{}", core_phrase(facts));
}

Answer cpp_exception(const Facts& facts) {
  const std::string thrown = uncaught_cpp_exception(facts.tail);
  if (!thrown.empty()) return fmt::format("uncaught C++ exception {}", shorten_middle(thrown, 240));
  if (!facts.says("terminate called without") || !abort_line(facts.tail).empty()) return {};
  return std::string(
      "C++ std::terminate without an exception: a joinable thread was destroyed, or noexcept was broken");
}

Answer aborted(const Facts& facts) {
  if (!facts.killed_by(SIGABRT)) return {};
  const std::string_view line = abort_line(facts.tail);
  if (!line.empty()) return fmt::format("aborted: {}", shorten(line, 200));
  return fmt::format("aborted: it called abort(), or was sent SIGABRT{}", core_phrase(facts));
}

Answer missing_library(const Facts& facts) {
  constexpr std::string_view kMark = "error while loading shared libraries: ";
  const std::string_view line = from_mark(facts.tail, kMark);
  if (line.empty()) return {};
  const std::string_view rest = line.substr(kMark.size());
  const std::string_view name = rest.substr(0, rest.find(':'));
  if (rest.find("cannot open shared object file") == std::string_view::npos) {
    return fmt::format("shared library {} cannot be loaded: {}", name, shorten(rest, 200));
  }
  return fmt::format("missing shared library {}: install it, or add its folder to LD_LIBRARY_PATH", name);
}

Answer missing_interpreter(const Facts& facts) {
  if (facts.status.is_killed() || facts.status.code() != 127) return {};
  const std::string_view line = line_with(facts.tail, "env: ");
  if (line.empty() || line.find("No such file") == std::string_view::npos) return {};
  return fmt::format(
      "missing interpreter: the script's first line asks for a program that is not in PATH ({})", line);
}

/// What the members of an exception group are.
std::string members_of_group(const Traceback& traceback) {
  if (traceback.exception.find("ExceptionGroup: ") == std::string::npos) return {};
  std::string members;
  for (const std::string_view line : split_lines(traceback.message)) {
    const std::string_view inner = trim_blanks(without_margin(line));
    const bool is_exception = !inner.empty() && inner[0] >= 'A' && inner[0] <= 'Z' &&
                              inner.find("Traceback (most recent") == std::string_view::npos;
    if (is_exception && without_margin(line)[0] != ' ')
      members += (members.empty() ? ": " : "; ") + std::string(inner);
  }
  return members;
}

std::string name_of(const Traceback& traceback) {
  const std::string origin = traceback.origin.substr(0, traceback.origin.find('\n'));
  const std::string from = origin == traceback.exception ? std::string() : ", from " + origin;
  const std::string place = traceback.place.empty() ? std::string() : ", in " + traceback.place;
  return shorten_middle(traceback.exception + members_of_group(traceback) + from, 240) + place;
}

/// In words that claim no more than is known.
std::string mention(const LastException& exception) {
  const std::string name = name_of(exception.traceback);
  const std::string earlier = how_much_earlier(exception);
  if (earlier.empty()) return fmt::format("its last words were the Python exception {}", name);
  return fmt::format("the last Python exception it printed, {}, was {}", earlier, name);
}

Answer python_exception(const Facts& facts) {
  const std::optional<LastException>& exception = facts.exception;
  if (!exception || exception->traceback.is_fatal || !exception->is_of_this_end()) return {};
  if (exception->bearing == Bearing::kUncaught)
    return fmt::format("uncaught Python exception {}", name_of(exception->traceback));
  return facts.words.error_file == nullptr ? Answer(mention(*exception)) : Answer();
}

Answer recorded_exception(const Facts& facts) {
  if (facts.words.error_file == nullptr) return {};
  const std::vector<std::string_view> lines = split_lines(facts.words.error_file->message);
  if (lines.empty()) return {};
  return fmt::format("its error file tells of {}", shorten_middle(lines.front(), 240));
}

Answer earlier_exception(const Facts& facts) {
  if (!facts.exception || facts.exception->traceback.is_fatal) return {};
  return mention(*facts.exception);
}

/// The traceback of a Python that C++ destructors end on its way out, without an exception of theirs.
Answer python_exception_at_abort(const Facts& facts) {
  return facts.says("terminate called without") ? python_exception(facts) : Answer();
}

Answer killed_loader(const Facts& facts) {
  const std::string death = loader_death(facts.tail);
  if (death.empty()) return {};
  const bool is_sigkill = death.substr(death.size() - std::string_view(": Killed").size()) == ": Killed";
  return is_sigkill ? death + "; most often by the kernel, when memory ran out" : death;
}

/// What reading from such a process raises where torch has not seen yet that it is gone.
Answer lost_loader(const Facts& facts) {
  const std::optional<LastException>& exception = facts.exception;
  if (!exception || !exception->is_of_this_end()) return {};
  const std::string& name = exception->traceback.exception;
  const bool is_connection =
      name.starts_with("Connection") || name.starts_with("EOFError") || name.starts_with("BrokenPipeError");
  if (!is_connection || facts.words.traceback.text.find("in _try_get_data\n") == std::string::npos) return {};
  return fmt::format(
      "lost the connection to one of its data loader processes, which has ended or been killed: {}",
      shorten(name, 200));
}

Answer module_not_found(const Facts& facts) {
  if (facts.status.is_killed()) return {};
  const std::string_view line = from_mark(facts.tail, "No module named ");
  if (line.empty()) return {};
  return fmt::format("Python finds no{}; is the right environment active?", shorten(line.substr(2), 120));
}

Answer address_in_use(const Facts& facts) {
  if (!facts.says("ddress already in use")) return {};
  return std::string("a port it wanted is in use: another job, or one that has not ended yet, holds it");
}

struct SignalText {
  int signal;
  std::string_view text;
};

constexpr std::array kSignalTexts{
    SignalText{SIGILL,
               "illegal instruction: the program was built for another CPU, or a compiler trap was hit"},
    SignalText{SIGFPE, "arithmetic fault: most often an integer division by zero"},
    SignalText{SIGPIPE, "wrote into a pipe or socket that nobody reads any more"},
    SignalText{SIGXCPU, "its limit of CPU time (ulimit -t) ended it"},
    SignalText{SIGXFSZ, "file size limit exceeded (ulimit -f)"},
    SignalText{SIGSYS, "forbidden system call: a seccomp filter (container, sandbox) stopped it"},
    SignalText{SIGTRAP, "trace trap: a breakpoint or a compiler trap without a debugger"},
    SignalText{SIGTERM, "told to end by someone other than ddprun (kill, a scheduler, itself)"},
    SignalText{SIGINT, "interrupted by someone other than ddprun"},
    SignalText{SIGHUP, "hung up on by someone other than ddprun"},
};

Answer other_signal(const Facts& facts) {
  for (const SignalText& entry : kSignalTexts) {
    if (facts.killed_by(entry.signal)) return std::string(entry.text) + core_phrase(facts);
  }
  return {};
}

Answer signal_passed_on(const Facts& facts) {
  const std::optional<int> signal = facts.evidence.passed_on;
  if (!signal || !facts.status.is_killed() || facts.status.signal() != *signal) return {};
  return fmt::format(
      "ddprun received {} and passed it on to its workers, and this program does not handle it",
      signal_name(*signal));
}

Answer exit_code_convention(const Facts& facts) {
  if (facts.status.is_killed()) return {};
  const int code = facts.status.code();
  if (code == 126)
    return std::string(
        "by a shell's convention, a command it ran could not be executed (permission, or a wrong format)");
  if (code == 127) return std::string("by a shell's convention, a command it ran was not found");
  if (code > 128 && code <= 128 + 31) {
    return fmt::format("by a shell's convention, a process in it was ended by {}", signal_name(code - 128));
  }
  return {};
}

}  // namespace

std::optional<std::string> diagnose(const ExitStatus& status, const LastWords& words,
                                    const Evidence& evidence) {
  // The most telling first: what ends a process says more than what it printed before, except for its own
  // last words.
  constexpr std::array kQuestions{missing_library,
                                  missing_interpreter,
                                  bus_error,
                                  segmentation_fault,
                                  out_of_memory,
                                  cuda_out_of_memory,
                                  loader_bus_error,
                                  killed_loader,
                                  lost_loader,
                                  full_disk,
                                  python_exception_at_abort,
                                  cpp_exception,
                                  aborted,
                                  signal_passed_on,
                                  other_signal,
                                  address_in_use,
                                  python_exception,
                                  recorded_exception,
                                  module_not_found,
                                  exit_code_convention,
                                  earlier_exception};
  if (status.is_success()) return std::nullopt;
  if (!evidence.hang.empty()) return printable(evidence.hang);
  const std::optional<LastException> exception = last_exception(status, words);
  const Facts facts{status, words, exception, evidence, what_it_said_last(status, words, exception)};
  for (const auto question : kQuestions) {
    Answer answer = question(facts);
    if (!answer) continue;
    if (exception && exception->bearing == Bearing::kBeforeKill) *answer += "; " + mention(*exception);
    return printable(*answer);
  }
  return std::nullopt;
}

}  // namespace ddprun::launcher
