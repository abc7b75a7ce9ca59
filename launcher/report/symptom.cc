#include "launcher/report/symptom.h"

#include "launcher/text/text.h"
#include "rendezvous/base/exit_codes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <span>

namespace ddprun::launcher {
namespace {

struct Phrase {
  std::string_view text;
  std::string_view meaning;
};

constexpr std::string_view kLostPeer = "lost a peer";
constexpr std::string_view kWaited = "waited in vain for a peer";
constexpr std::string_view kLostStore = "lost the store";

// What is printed by a rank because another one is gone, and by nothing else.
constexpr std::array kPhrases{
    // gloo, transport/tcp/pair.cc.
    Phrase{"Application timeout caused pair closure", kWaited},
    // gloo, transport/tcp/unbound_buffer.cc.
    Phrase{"ms for recv operation to complete", kWaited},
    Phrase{"ms for send operation to complete", kWaited},
    // gloo, rendezvous: a peer is gone before all are connected.
    Phrase{"Gloo connectFullMesh failed", kLostPeer},
    // torch/csrc/distributed/c10d: ProcessGroupGloo.cpp, monitoredBarrier.
    Phrase{"failed to pass monitoredBarrier", kWaited},
    Phrase{"timed out in monitoredBarrier", kWaited},
    // The same folder: Utils.hpp, socket.cpp, TCPStore.cpp, TCPStoreLibUvBackend.cpp.
    Phrase{"Connection was likely closed. Did the remote server shutdown or crash?", kLostStore},
    Phrase{"recvValue failed", kLostStore},
    Phrase{"recvValueWithTimeout failed", kLostStore},
    Phrase{"The client socket has failed to connect", kLostStore},
    Phrase{"failed to connect to the remote store", kLostStore},
    // The same folder: ProcessGroupNCCL.cpp, NCCLUtils.cpp.
    Phrase{"Watchdog caught collective operation timeout", kWaited},
    Phrase{"NCCL communicator was aborted on rank", kLostPeer},
    Phrase{"Some NCCL operations have failed or timed out", kWaited},
    Phrase{"Received a dump signal", kWaited},
    // NCCL: ncclGetErrorString.
    Phrase{"remote process exited or there was a network error", kLostPeer},
    Phrase{"ncclRemoteError", kLostPeer},
    // ddprun's own library: worker/runtime/comm/shm/group.cc and mailbox.cc.
    Phrase{" died while rank ", kLostPeer},
    Phrase{" has left the group while rank ", kLostPeer},
    Phrase{"all other ranks have ended", kLostPeer},
    Phrase{"are they slower than the timeout, or in another collective?", kWaited},
    // worker/training/job.cc.
    Phrase{" failed first: ", kLostPeer},
    // torch/csrc/distributed/rpc and tensorpipe.
    Phrase{"eof (this error originated at tensorpipe", kLostPeer},
    Phrase{"connection reset by peer (this error originated at tensorpipe", kLostPeer},
};

// gloo, transport/tcp/pair.cc: the ranks are in two collectives, or a peer raised between the parts of one and
// went on to another.
constexpr std::string_view kMismatch = "Is there a distributed collective mismatch in your code?";

// What a rank prints because another one is gone, and as well because a data set's server, a logging service
// or a helper process is: the kernel's words, and common ones.
constexpr std::array<std::string_view, 7> kConnectionPhrases{"Connection closed by peer",
                                                             "Connection reset by peer",
                                                             "Connection closed by remote peer",
                                                             "Broken pipe",
                                                             "BrokenPipeError",
                                                             "ConnectionResetError",
                                                             "ConnectionRefusedError"};
constexpr std::array<std::string_view, 4> kTimeoutPhrases{"Timed out waiting", "Connect timeout",
                                                          "Socket Timeout", "wait timeout after"};

// Who says such a word, where that is torch.distributed: the source path in gloo's errors, or an address in
// its words; the types and sources of c10d's; the heads of NCCL's.
constexpr std::array<std::string_view, 9> kCollectiveWords{"gloo/transport/",
                                                           "gloo/rendezvous/",
                                                           "Connection closed by peer [",
                                                           "DistNetworkError",
                                                           "DistStoreError",
                                                           "DistBackendError",
                                                           "c10d",
                                                           "NCCL error",
                                                           "NCCL WARN"};

// torch/utils/data: dataloader.py, _utils/signal_handling; multiprocessing's resource sharer when one is
// gone.
constexpr std::array<std::string_view, 3> kLoaderPhrases{
    "DataLoader worker (pid", "Pin memory thread exited unexpectedly", "unable to mmap"};

// What programs make of the SIGTERM that we send: not a failure of their own.
constexpr std::array<std::string_view, 5> kSignalPhrases{"SIGTERM", "SIGINT", "KeyboardInterrupt",
                                                         "SignalException", "signal: Terminated"};

// What C++ says when it is ended while it cleans up after an exception that nobody sees, often of a lost peer:
// libstdc++, and worker/runtime/process/record.
constexpr std::array<std::string_view, 2> kUnwindingPhrases{"terminate called without an active exception",
                                                            "std::terminate was called during the unwinding"};

// assert, the C library and the C++ library, before they abort.
constexpr std::array<std::string_view, 12> kAbortMarks{"Assertion `",
                                                       "double free",
                                                       "free(): ",
                                                       "malloc(): ",
                                                       "realloc(): ",
                                                       "munmap_chunk(): ",
                                                       "corrupted size vs. prev_size",
                                                       "corrupted double-linked list",
                                                       "buffer overflow detected",
                                                       "stack smashing detected",
                                                       "Fatal glibc error: ",
                                                       "pure virtual method called"};

// worker/main.cc and worker/runtime/process/record: how our own worker says why it leaves.
constexpr std::array<std::string_view, 2> kOwnWords{"ddprun-worker: ", "ddprun: uncaught "};

constexpr std::string_view kTerminate = "terminate called ";

/// Where std::terminate's handler last speaks in `text`, or npos.
std::size_t last_terminate(std::string_view text) {
  std::size_t at = text.rfind(kTerminate);
  // That is another thread's, which came second.
  while (at != std::string_view::npos && text.substr(at + kTerminate.size()).starts_with("recursively"))
    at = at == 0 ? std::string_view::npos : text.rfind(kTerminate, at - 1);
  return at;
}

bool has_one_of(std::string_view text, std::span<const std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return has(text, part); });
}

// What a text says of somebody else's end; no phrase: nothing.
struct Loss {
  std::string_view phrase;
  std::string_view meaning;
  Weight weight = Weight::kCause;
};

constexpr std::size_t kLongestError = 1000;

// c10d before it had error types of its own: Python's own errors of a connection are no RuntimeErrors.
bool is_by_collective(std::string_view text, std::string_view phrase) {
  return has_one_of(text, kCollectiveWords) || has(text, fmt::format("RuntimeError: {}", phrase));
}

Loss find_loss(std::string_view text) {
  for (const Phrase& phrase : kPhrases) {
    if (has(text, phrase.text)) return {phrase.text, phrase.meaning, Weight::kSymptom};
  }
  for (const std::string_view phrase : kConnectionPhrases) {
    if (!has(text, phrase)) continue;
    if (is_by_collective(text, phrase)) return {phrase, kLostPeer, Weight::kSymptom};
    return {phrase, "lost a connection", Weight::kDoubtful};
  }
  for (const std::string_view phrase : kTimeoutPhrases) {
    if (!has(text, phrase)) continue;
    if (is_by_collective(text, phrase)) return {phrase, kWaited, Weight::kSymptom};
    return {phrase, "waited in vain", Weight::kDoubtful};
  }
  if (has(text, kMismatch))
    return {kMismatch, "got data of another size than it waited for", Weight::kDoubtful};
  return {};
}

/// The phrase, with its sentence from the beginning where it is the end of one: "Timed out waiting 5000ms for
/// recv operation to complete"; and to its end where it is the middle: "rank 2 (pid 7) died while rank 3 waited
/// for it".
std::string sentence_to(std::string_view text, std::string_view phrase) {
  const bool is_middle = phrase.starts_with(' ');
  if (!is_middle && !phrase.starts_with("ms ")) return std::string(phrase);
  constexpr std::size_t kLongestBefore = 120;
  const std::size_t at = text.find(phrase);
  const std::string_view before = text.substr(0, at);
  std::size_t begin = 0;
  for (const std::string_view mark : {"\n", "] ", ": "}) {
    const std::size_t found = before.rfind(mark);
    if (found != std::string_view::npos) begin = std::max(begin, found + mark.size());
  }
  const bool is_cut = at - begin > kLongestBefore;
  if (is_cut) begin = std::min(text.find(' ', at - kLongestBefore), at);
  const std::size_t after = at + phrase.size();
  const std::size_t end = is_middle ? std::min(text.find_first_of(";\n", after), text.size()) : after;
  const std::string_view sentence = trim_blanks(text.substr(begin, end - begin));
  return (is_cut ? "… " : "") + shorten(sentence, 2 * kLongestBefore);
}

bool is_killed_by(const ExitStatus& status, int signal) {
  return status.is_killed() && status.signal() == signal;
}

std::string last_of_tail(std::string_view tail) {
  std::string text;
  for (const std::string_view line : last_lines(tail, 20)) text += std::string(line) + "\n";
  return text;
}

std::string_view last_line(std::string_view text) {
  const std::vector<std::string_view> lines = last_lines(text, 1);
  return lines.empty() ? std::string_view() : lines.front();
}

/// "[W1122 06:29:46.948235015 socket.cpp:207] [c10d] …", also without the bracket, and behind "[rank1]:".
bool is_warning_of_torch(std::string_view line) {
  if (line.starts_with("[rank")) line.remove_prefix(std::min(line.find(':') + 1, line.size()));
  if (line.starts_with('[')) line.remove_prefix(1);
  constexpr std::size_t kDate = 4;
  if (line.size() < kDate + 2 || (line[0] != 'W' && line[0] != 'I') || line[kDate + 1] != ' ') return false;
  return line.substr(1, kDate).find_first_not_of("0123456789") == std::string_view::npos;
}

/// What torch only warned of, the program has survived.
std::string without_warnings(const std::string& text) {
  std::string rest;
  for (const std::string_view line : split_lines(text)) {
    if (!is_warning_of_torch(line)) rest += std::string(line) + "\n";
  }
  return rest;
}

/// The text that says why it ended: an exception with which a chain began, an error file, or the last lines.
std::string telling_text(const ExitStatus& status, const LastWords& words,
                         const std::optional<LastException>& exception) {
  const bool is_told_by_file =
      words.error_file != nullptr && exception && exception->bearing == Bearing::kLastWords;
  if (exception && !exception->traceback.is_fatal && !is_told_by_file) {
    // What follows may still be its text.
    const bool is_whole = exception->lines_after == 0 || exception->bearing == Bearing::kUncaught;
    return exception->traceback.origin + (is_whole ? std::string() : last_of_tail(words.after_traceback()));
  }
  if (status.is_killed() && status.signal() != SIGABRT && words.stopped_with != status.signal()) return {};
  if (words.error_file != nullptr) return words.error_file->message;
  return last_of_tail(words.stderr_tail);
}

/// "std::runtime_error: boom" where the process aborted itself for it.
std::string thrown_at_end(const ExitStatus& status, const LastWords& words,
                          const std::optional<LastException>& exception) {
  if (words.stopped_with || !is_killed_by(status, SIGABRT)) return {};
  return uncaught_cpp_exception(words_of_abort(words, exception));
}

std::string own_error(const LastWords& words, const std::optional<LastException>& exception,
                      const std::string& thrown) {
  const std::vector<std::string_view> lines =
      words.error_file == nullptr ? std::vector<std::string_view>() : split_lines(words.error_file->message);
  const bool is_fatal = exception && exception->traceback.is_fatal;
  if (!thrown.empty() && (is_fatal || (!exception && lines.empty()))) return printable(thrown);
  // There are as many reasons for that as to abort.
  const bool says_nothing = is_fatal && exception->traceback.exception == "Fatal Python error: Aborted";
  const bool is_certain = exception && exception->bearing == Bearing::kUncaught;
  if (exception && !says_nothing && (is_certain || words.error_file == nullptr))
    return printable(shorten_middle(exception->traceback.exception, kLongestError));
  return lines.empty() ? std::string() : printable(shorten_middle(lines.front(), kLongestError));
}

}  // namespace

Ending judge_end(const ExitStatus& status, const LastWords& all_words) {
  LastWords words = all_words;
  std::optional<LastException> exception = last_exception(status, words);
  if (exception && !exception->is_of_this_end()) exception.reset();
  // Of the two, what it said before our signal is what it failed of.
  if (exception && words.error_file != nullptr && words.traceback_is_late != words.error_file_is_late) {
    if (words.traceback_is_late) exception.reset();
    if (words.error_file_is_late) words.error_file = nullptr;
  }
  const bool is_late = exception ? words.traceback_is_late : words.error_file_is_late;
  Ending ending;
  ending.is_own_failure = true;
  const std::string thrown = thrown_at_end(status, words, exception);
  ending.error = own_error(words, exception, thrown);
  // Of an error of C++ the stack may be longer than what is read of its last lines.
  const bool is_thrown = !thrown.empty() && ending.error == printable(thrown);
  const std::string text =
      (is_thrown ? thrown + "\n" : "") + without_warnings(telling_text(status, words, exception));

  if (words.stopped_with) {
    // "OSError: cannot save after SIGTERM" is more than that.
    ending.is_of_signal = has_one_of(ending.error.substr(0, ending.error.find(':')), kSignalPhrases) ||
                          has_one_of(ending.error, kLoaderPhrases);
    ending.is_own_failure = !ending.error.empty() && !is_late && !has_one_of(text, kSignalPhrases) &&
                            !(exception && exception->traceback.is_fatal);
    if (!ending.is_own_failure && ending.error.empty()) return ending;
  }
  // Lines that stand before others may be of what the program has got over.
  const bool is_of_failure = exception || words.error_file != nullptr;
  const std::string doubted = is_thrown ? thrown : is_of_failure ? text : std::string(last_line(text));
  Loss loss = find_loss(text);
  if (loss.weight == Weight::kDoubtful) loss = find_loss(doubted);
  if (has_one_of(doubted, kLoaderPhrases)) {
    ending.weight = Weight::kDoubtful;
    ending.symptom = "lost a data loader process";
  } else if (!loss.phrase.empty()) {
    ending.weight = loss.weight;
    ending.waited_in_vain = loss.meaning == kWaited;
    ending.symptom = fmt::format("{} ({})", loss.meaning, sentence_to(text, loss.phrase));
  } else if (has_one_of(doubted, kUnwindingPhrases)) {
    ending.weight = Weight::kDoubtful;
    ending.symptom = "was ended by std::terminate, without a reason or as it cleaned up";
  } else if (!status.is_killed() && status.code() == exit_code::kTempFail) {
    // rendezvous/base/exit_codes.h: what our own worker means by it. Others ask for another time.
    const bool is_our_worker = has_one_of(last_of_tail(words.stderr_tail), kOwnWords);
    ending.weight = is_our_worker ? Weight::kSymptom : Weight::kDoubtful;
    ending.symptom = fmt::format("{} (exit code {})",
                                 is_our_worker ? "lost a peer or timed out" : "asked to be tried again",
                                 exit_code::kTempFail);
  } else if (!words.stopped_with && (is_killed_by(status, SIGTERM) || is_killed_by(status, SIGPIPE))) {
    ending.weight = Weight::kDoubtful;
    ending.symptom = is_killed_by(status, SIGTERM) ? "was ended by somebody else (SIGTERM)"
                                                   : "wrote what nobody reads any more (SIGPIPE)";
  }
  return ending;
}

Ending judge_worker(const WorkerOutcome& worker, const std::optional<ErrorFile>& error_file) {
  Ending ending = judge_end(*worker.status, last_words(worker, error_file));
  if (!error_file) return ending;
  // Whole seconds, cut off, of the host's wall clock: it was over before the next one at the latest.
  char* end = nullptr;
  const double seconds = std::strtod(error_file->timestamp.c_str(), &end);
  if (end == error_file->timestamp.c_str() || !(seconds > 0) || seconds > 1e10) return ending;
  const auto at_latest =
      std::chrono::system_clock::time_point(std::chrono::seconds(static_cast<long>(seconds) + 1));
  if (at_latest <= worker.started_wall || at_latest >= worker.ended_wall) return ending;
  ending.failed_at = worker.ended_at - std::chrono::duration_cast<Duration>(worker.ended_wall - at_latest);
  return ending;
}

// faulthandler writes its stacks behind what the program said last.
std::string_view words_of_abort(const LastWords& words, const std::optional<LastException>& exception) {
  const bool is_before = exception && exception->traceback.is_fatal && exception->is_of_this_end();
  if (!is_before) return words.after_traceback();
  const std::string_view before =
      words.stderr_tail.substr(0, words.stderr_tail.rfind("Fatal Python error: "));
  const std::string_view line = abort_line(before);
  if (!line.empty()) return before.substr(static_cast<std::size_t>(line.data() - before.data()));
  return before.substr(std::min(last_terminate(before), before.size()));
}

std::string_view abort_line(std::string_view text) {
  const std::vector<std::string_view> lines = split_lines(text);
  const auto found = std::find_if(lines.rbegin(), lines.rend(),
                                  [](std::string_view line) { return has_one_of(line, kAbortMarks); });
  return found == lines.rend() ? std::string_view() : *found;
}

std::string uncaught_cpp_exception(std::string_view text) {
  constexpr std::string_view kThrown = "after throwing an instance of '";
  constexpr std::string_view kWhat = "what():";
  constexpr std::size_t kLongestType = 120;
  const std::size_t begin = last_terminate(text);
  if (begin == std::string_view::npos) return {};
  text.remove_prefix(begin + kTerminate.size());
  if (!text.starts_with(kThrown)) return {};
  text.remove_prefix(kThrown.size());
  const std::string type = shorten_middle(text.substr(0, text.find_first_of("'\n")), kLongestType);
  text.remove_prefix(std::min(text.find('\n'), text.size()));
  if (!abort_line(text.substr(std::min(text.find('\n', 1), text.size()))).empty()) return {};
  text = trim_blanks(text);
  if (!text.starts_with(kWhat)) return type;
  std::string_view what = text.substr(kWhat.size());
  // What libtorch says of TorchScript begins with an empty line. Another line may be another thread's.
  if (type.starts_with("torch::jit::")) what = trim_blanks(what);
  const std::string_view line = trim_blanks(what.substr(0, what.find('\n')));
  return line.empty() ? type : fmt::format("{}: {}", type, shorten_middle(line, kLongestError));
}

std::string loader_death(std::string_view text) {
  constexpr std::string_view kStart = "DataLoader worker (pid";
  const std::size_t at = text.find(kStart);
  if (at == std::string_view::npos) return {};
  std::string_view rest = text.substr(at + kStart.size());
  rest = rest.substr(0, rest.find('\n'));
  if (rest.starts_with("(s)")) rest.remove_prefix(3);
  const std::string_view pid = trim_blanks(rest.substr(0, rest.find(')')));
  const auto what_follows = [&](std::string_view mark) {
    const std::size_t found = rest.find(mark);
    if (found == std::string_view::npos) return std::string_view();
    const std::string_view value = rest.substr(found + mark.size());
    return value.substr(0, value.find('.'));
  };
  if (const std::string_view name = what_follows("is killed by signal: "); !name.empty())
    return fmt::format("one of its data loader processes (pid {}) was killed: {}", pid, name);
  if (const std::string_view code = what_follows("exited unexpectedly with exit code "); !code.empty())
    return fmt::format("one of its data loader processes (pid {}) exited with code {}", pid, code);
  if (has(rest, "exited unexpectedly"))
    return fmt::format("one of its data loader processes (pid {}) exited unexpectedly", pid);
  return {};
}

}  // namespace ddprun::launcher
