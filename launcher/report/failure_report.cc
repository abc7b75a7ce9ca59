#include "launcher/report/failure_report.h"

#include "launcher/text/text.h"
#include "rendezvous/base/format_duration.h"
#include "rendezvous/base/shell_quote.h"
#include "rendezvous/base/signal_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <map>

namespace ddprun::launcher {
namespace {

constexpr std::size_t kStderrLines = 20;
constexpr std::size_t kStackLines = 12;
constexpr std::size_t kLongestShown = 240;
constexpr std::size_t kLongestShownMessage = 400;

bool is_killed_by(const WorkerOutcome& worker, int signal) {
  return worker.status && worker.status->is_killed() && worker.status->signal() == signal;
}

bool is_ended_by_us(const WorkerOutcome& worker) {
  return worker.stopped_with && is_killed_by(worker, *worker.stopped_with);
}

bool has_left(const WorkerOutcome& worker) { return worker.status && worker.status->is_success(); }

/// Whether it ended of a signal that people, schedulers and the kernel send, and we did not: often to several ranks at
/// once. Nobody tells which of them it reached first, for who has more memory is longer about its end.
bool is_by_others(const WorkerOutcome& worker) {
  constexpr std::array kSent{SIGKILL, SIGTERM, SIGINT, SIGHUP};
  const bool is_passed_on = worker.passed_on && is_killed_by(worker, *worker.passed_on);
  const bool is_sent = is_passed_on || std::any_of(kSent.begin(), kSent.end(),
                                                   [&](int signal) { return is_killed_by(worker, signal); });
  return !worker.stopped_with && worker.ending.error.empty() && !worker.is_killed_for_hang() && is_sent;
}

/// Whether it is blamed for having stood still, not for its end.
bool is_blamed_for_standstill(const WorkerOutcome& worker) {
  return worker.was_suspended && worker.end_kind == EndKind::kRootCause;
}

/// "exited with code 1", "left with exit code 0", "failed": what a root cause did.
std::string what_it_did(const WorkerOutcome& worker) {
  if (is_blamed_for_standstill(worker)) return "was stopped by a signal (SIGSTOP)";
  if (!worker.status) return "ended";
  if (has_left(worker)) return "left with exit code 0";
  return is_ended_by_us(worker) && worker.ending.is_own_failure ? "failed" : to_string(*worker.status);
}

std::string error_of(const WorkerOutcome& worker) {
  return printable(shorten(worker.ending.error, kLongestShown));
}

/// "; error: OSError: no space", as of a save: what went wrong while it ended, unless that was another one's end or our
/// signal itself.
std::string late_error(const WorkerOutcome& worker) {
  const Ending& ending = worker.ending;
  const bool is_late = worker.stopped_with && !ending.is_own_failure && ending.weight != Weight::kSymptom;
  return is_late && !ending.is_of_signal && !ending.error.empty() ? "; error: " + error_of(worker)
                                                                  : std::string();
}

/// "ended by SIGTERM", "exited with code 1 after SIGTERM", "failed as well: exited with code 3".
std::string how_it_ended(const WorkerOutcome& worker, const GenerationOutcome& generation) {
  switch (worker.end_kind) {
    case EndKind::kSucceeded:
      if (worker.stopped_with)
        return fmt::format("ended in order after {}", signal_name(*worker.stopped_with));
      return "had succeeded";
    case EndKind::kNotStarted:
      return "never started";
    case EndKind::kNotEnded:
      return fmt::format("still there after SIGKILL (pid {}, {})", worker.pid,
                         worker.stuck_in.empty() ? "state unknown" : worker.stuck_in);
    case EndKind::kRootCause:
    case EndKind::kConsequence:
      break;
  }
  if (!worker.status) return "ended, unknown how";
  if (worker.is_killed_for_hang()) return "was killed by ddprun: no progress";
  // systemd and Slurm send it to the launcher and to its workers.
  const bool is_of_stop = generation.reason == StopReason::kSignal && is_killed_by(worker, generation.signal);
  if (is_of_stop && is_by_others(worker))
    return fmt::format("ended by {}", signal_name(worker.status->signal()));
  const Ending& ending = worker.ending;
  if (ending.is_own_failure && !ending.symptom.empty()) {
    return is_ended_by_us(worker) ? ending.symptom
                                  : fmt::format("{}: {}", to_string(*worker.status), ending.symptom);
  }
  if (worker.stopped_with && ending.is_own_failure && !ending.error.empty()) {
    return "failed by itself: " + error_of(worker);
  }
  if (!worker.stopped_with && has_left(worker)) return what_it_did(worker);
  if (!worker.stopped_with) {
    std::string end = to_string(*worker.status);
    if (!ending.error.empty()) end += fmt::format(" ({})", error_of(worker));
    if (generation.reason == StopReason::kSignal) return end;
    return "failed as well: " + (end.starts_with("was ") ? end.substr(4) : end);
  }
  const std::string sent = signal_name(*worker.stopped_with);
  if (is_ended_by_us(worker)) return fmt::format("ended by {}", sent);
  if (worker.status->is_success()) return fmt::format("ended in order after {}", sent);
  return fmt::format("{} after {}", to_string(*worker.status), sent);
}

std::string because(const GenerationOutcome& generation) {
  switch (generation.reason) {
    case StopReason::kWorkerFailed:
    case StopReason::kSpawnFailed:
      if (!generation.root_cause) return {};
      return fmt::format(", because rank {} failed",
                         generation.workers[generation.victim.value_or(*generation.root_cause)].rank);
    case StopReason::kSucceeded:
    case StopReason::kSignal:
    case StopReason::kJobTimeout:
    case StopReason::kRoundStopped:
    case StopReason::kRendezvousFailed:
      return {};
  }
  return {};
}

/// What it ended of came from us. Another signal than ours did not, or may not.
bool is_told_to_stop(const WorkerOutcome& worker) {
  const bool is_not_ours = worker.status && worker.status->is_killed() && !is_ended_by_us(worker);
  return worker.end_kind == EndKind::kConsequence && worker.stopped_with.has_value() && !is_not_ours &&
         !(worker.ending.is_own_failure && (!worker.ending.error.empty() || !worker.ending.symptom.empty()));
}

/// Lines with a bar before them, as they would look on a terminal.
std::string quote(const std::vector<std::string_view>& lines) {
  std::string text;
  for (const std::string_view line : lines)
    text += fmt::format("    | {}\n", printable(shorten(line, kLongestShown)));
  return text;
}

std::string in_file(const std::string& path) { return path.empty() ? "" : fmt::format(" ({})", path); }

/// Of who is accused, or of the victim that speaks for it.
std::string last_lines_section(const WorkerOutcome& worker, bool is_victim, std::string_view text) {
  const std::vector<std::string_view> lines = last_lines(text, kStderrLines);
  if (lines.empty()) return worker.pid == 0 ? std::string() : std::string("\n  it wrote nothing to stderr\n");
  const std::string which = lines.size() == 1 ? "line" : fmt::format("{} lines", lines.size());
  const std::string where = is_victim
                                ? fmt::format("what rank {}, which lost it, wrote to stderr", worker.rank)
                                : std::string("its stderr");
  return fmt::format("\n  the last {} of {}{}:\n{}", which, where, in_file(worker.stderr_path), quote(lines));
}

std::string stderr_section(const RootCause& root) {
  const WorkerOutcome& speaker = root.speaker();
  const bool is_victim = root.victim.has_value();
  if (!root.exception) return last_lines_section(speaker, is_victim, speaker.stderr_tail);
  const LastException& last = *root.exception;
  const bool is_known = last.bearing == Bearing::kUncaught;
  const std::string earlier = is_known ? std::string() : how_much_earlier(last);
  // One that was printed long before a kill tells nothing of it.
  if (!earlier.empty() && speaker.status->is_killed())
    return last_lines_section(speaker, is_victim, speaker.stderr_tail);
  const std::string whose = is_victim ? fmt::format("the traceback of rank {}, which lost it", speaker.rank)
                            : last.bearing == Bearing::kBeforeKill ? "the traceback it had printed before"
                            : earlier.empty()                      ? "its traceback"
                                              : fmt::format("the last traceback it printed, {}", earlier);
  std::string traceback = fmt::format("\n  {}{}:\n{}", whose, in_file(speaker.stderr_path),
                                      quote({last.traceback.shown.begin(), last.traceback.shown.end()}));
  if (is_known || last.lines_after == 0) return traceback;
  const LastWords words = last_words(speaker, std::nullopt);
  return traceback + last_lines_section(speaker, is_victim, words.after_traceback());
}

/// Whether both failed of the very same.
bool is_alike(const WorkerOutcome& worker, const WorkerOutcome& root) {
  if (is_blamed_for_standstill(root)) return false;  // what it says came after
  if (worker.is_killed_for_hang() || root.is_killed_for_hang())
    return worker.is_killed_for_hang() && root.is_killed_for_hang();
  if (!root.ending.error.empty() || !worker.ending.error.empty())
    return worker.ending.error == root.ending.error && worker.ending.is_own_failure &&
           worker.end_kind != EndKind::kSucceeded;
  return is_by_others(root) && is_by_others(worker) && worker.status->signal() == root.status->signal();
}

/// The ranks that failed of the very same, the guilty one among them.
std::vector<int> alike(const GenerationOutcome& generation, const WorkerOutcome& root) {
  std::vector<int> ranks;
  for (const WorkerOutcome& worker : generation.workers) {
    if (worker.rank == root.rank || is_alike(worker, root)) ranks.push_back(worker.rank.value());
  }
  return ranks;
}

/// "rank 1 was killed by SIGKILL", "ranks 1-2 were killed by SIGTERM: were ended by somebody else (SIGTERM)".
std::string told_of(const std::vector<int>& ranks, std::string text) {
  if (ranks.size() > 1 && text.starts_with("was ")) text.replace(0, 3, "were");
  constexpr std::string_view kEnded = ": was ended by ";
  const std::size_t at = text.find(": ");  // behind it stands the symptom, and an error behind a later one
  if (ranks.size() > 1 && at != std::string::npos && text.substr(at).starts_with(kEnded))
    text.replace(at + 2, 3, "were");
  return fmt::format("{} {}", rank_phrase(ranks), text);
}

std::string symptom_line(const RootCause& root, const GenerationOutcome* generation) {
  const Ending& ending = root.worker.ending;
  if (ending.weight != Weight::kSymptom || root.victim || has_left(root.worker)) return {};
  std::vector<int> running;
  for (const WorkerOutcome& worker : generation->workers) {
    if (!worker.stopped_with || worker.ending.is_own_failure) continue;
    running.push_back(worker.rank.value());
  }
  const std::string others = running.empty() ? std::string()
                                             : fmt::format("; {} {} still running", rank_phrase(running),
                                                           running.size() == 1 ? "was" : "were");
  return fmt::format("  a symptom: it {}, and no other rank has said why{}\n", ending.symptom, others);
}

/// The error file, without what stderr has just shown. The stack of a C++ program may be its message alone.
std::string error_file_section(const RootCause& root) {
  if (!root.error_file) {
    return root.unread_error_file.empty()
               ? std::string()
               : fmt::format("\n  its error file ({}) cannot be read: {}\n", root.worker.error_file,
                             printable(root.unread_error_file));
  }
  const std::string message = shorten(root.error_file->message, kLongestShownMessage);
  const std::vector<std::string_view> message_lines = split_lines(message);
  const bool is_shown =
      !message_lines.empty() && root.worker.stderr_tail.find(message_lines.front()) != std::string::npos;
  const std::string where = root.host.empty() ? std::string() : root.host + ":";
  std::string text = fmt::format("\n  its error file ({}{}) says:\n", where, root.worker.error_file);
  for (const std::string_view line : message_lines) text += fmt::format("    {}\n", printable(line));
  if (!is_shown && root.error_file->stack != root.error_file->message)
    text += quote(last_lines(root.error_file->stack, kStackLines));
  return text;
}

std::string root_section(const RootCause& root, const GenerationOutcome* generation) {
  const std::vector<int> same = generation == nullptr ? std::vector<int>() : alike(*generation, root.worker);
  // What is known of the one that a signal ended need not be so of the others.
  const bool is_of_one = same.size() > 1 && is_by_others(root.worker);
  std::string text =
      is_of_one ? fmt::format("  {}\n", told_of(same, what_it_did(root.worker))) : std::string();
  const std::string who = root.victim       ? fmt::format("rank {}: ", root.victim->rank)
                          : is_of_one       ? fmt::format("rank {}: ", root.worker.rank)
                          : same.size() > 1 ? rank_phrase(same) + ": "
                                            : std::string();
  if (root.diagnosis) text += fmt::format("  {}{}\n", who, *root.diagnosis);
  if (generation != nullptr) text += symptom_line(root, generation);
  text += stderr_section(root);
  text += error_file_section(root);
  return text;
}

std::string labelled(std::string_view label, const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += fmt::format("  {:<9} {}\n", label, printable(line));
    label = "";
  }
  return text;
}

std::string first_line(const JobOutcome& outcome, const std::optional<RootCause>& root,
                       const ReportContext& context) {
  const std::string title = shell_quote(context.title);
  const bool is_past = outcome.granted_restart.has_value();
  if (root && root->host.empty() && !is_past) {
    return fmt::format("ddprun: {} failed: {}", title, headline(root->worker, context.hostname));
  }
  if (root && !is_past && outcome.reason != StopReason::kSignal && outcome.reason != StopReason::kJobTimeout)
    return fmt::format("ddprun: {} failed: {}", title, outcome.why);
  if (outcome.error) return fmt::format("ddprun: {} failed: {}", title, outcome.error->message());
  if (outcome.why == membership::kDrained)
    return fmt::format("ddprun: {} was drained; start it again to go on", title);
  switch (outcome.reason) {
    case StopReason::kSignal:
      return fmt::format("ddprun: {} was stopped by {}", title, signal_name(outcome.signal));
    case StopReason::kJobTimeout:
      return fmt::format("ddprun: {} was stopped by --job-timeout", title);
    case StopReason::kRoundStopped:
      return fmt::format("ddprun: {} failed: {}", title, outcome.why);
    case StopReason::kSucceeded:
    case StopReason::kWorkerFailed:
    case StopReason::kSpawnFailed:
    case StopReason::kRendezvousFailed:
      break;
  }
  return outcome.why.empty() ? fmt::format("ddprun: {} failed", title)
                             : fmt::format("ddprun: {} failed: {}", title, outcome.why);
}

std::vector<std::string> restart_lines(const JobOutcome& outcome, const ReportContext& context) {
  const int allowed = outcome.restarts_allowed.value_or(context.max_restarts);
  if (outcome.restarts_used == 0 && context.max_restarts == 0 && allowed == 0) return {};
  // Those that are older than the window cost nothing any more.
  std::string used = context.restart_window && allowed == context.max_restarts
                         ? fmt::format("{} used, {} are allowed within {}", outcome.restarts_used, allowed,
                                       format_duration(*context.restart_window))
                         : fmt::format("{} of {} used", outcome.restarts_used, allowed);
  if (context.max_restarts > 0 && allowed != context.max_restarts)
    used += fmt::format(" (--max-restarts counts where the coordinator runs; here it is {})",
                        context.max_restarts);
  const bool is_said = outcome.refusal.empty() || outcome.granted_restart;  // that is how it ended
  return {is_said ? used : fmt::format("{}; {}", used, outcome.refusal)};
}

/// What had happened when the job came to another end: a worker failed or a node was lost, and there was to be a
/// restart; or other nodes failed, and this one was told to end, or lost its coordinator.
std::vector<std::string> lines_before(const JobOutcome& outcome, const std::optional<RootCause>& root,
                                      const ReportContext& context, const std::string& first) {
  if (outcome.granted_restart) {
    if (!root) return {outcome.granted_restart->why};
    return {root->host.empty() ? headline(root->worker, context.hostname)
                               : membership::placed(root->what, "host " + root->host)};
  }
  if (root || outcome.generations.empty()) return {};
  const GenerationOutcome& last = outcome.generations.back();
  // It was a symptom, and this node was told to end before the cause was known.
  if (last.root_cause) return {headline(last.workers[*last.root_cause], context.hostname)};
  const bool is_told = last.reason == StopReason::kRoundStopped && !last.why.empty();
  return is_told && first.find(last.why) == std::string::npos ? std::vector{last.why}
                                                              : std::vector<std::string>();
}

}  // namespace

std::string headline(const WorkerOutcome& worker, const std::string& hostname) {
  if (worker.spawn_error) {
    return fmt::format("rank {} (local rank {}, host {}) could not be started: {}", worker.rank,
                       worker.local_rank, hostname, worker.spawn_error->message());
  }
  const TimePoint failed_at = std::min(worker.ended_at, worker.ending.failed_at.value_or(worker.ended_at));
  // Nobody saw when it was stopped.
  const bool is_still = is_blamed_for_standstill(worker);
  const std::string since = is_still && !worker.stuck_in.empty() ? ", and does not end on SIGKILL" : "";
  const std::string when =
      is_still ? std::string() : " after " + format_duration(failed_at - worker.started_at);
  return fmt::format("rank {} (local rank {}, pid {}, host {}) {}{}{}{}", worker.rank, worker.local_rank,
                     worker.pid, hostname, what_it_did(worker), when,
                     is_still || has_left(worker) ? ", while others waited for it" : "", since);
}

std::vector<std::string> consequences(const GenerationOutcome& generation, bool is_root_told) {
  std::vector<std::pair<std::string, std::vector<int>>> groups;  // in the order of the lowest rank
  std::vector<int> told;
  if (generation.root_cause) {
    const WorkerOutcome& root = generation.workers[*generation.root_cause];
    // lines_before() names no other.
    told = is_root_told ? alike(generation, root) : std::vector{root.rank.value()};
  }
  for (const WorkerOutcome& worker : generation.workers) {
    if (std::find(told.begin(), told.end(), worker.rank.value()) != told.end()) continue;
    std::string text = how_it_ended(worker, generation);
    if (is_told_to_stop(worker)) text += because(generation);
    text += late_error(worker);
    const auto group =
        std::find_if(groups.begin(), groups.end(), [&](const auto& entry) { return entry.first == text; });
    if (group == groups.end()) {
      groups.emplace_back(std::move(text), std::vector<int>{worker.rank.value()});
    } else {
      group->second.push_back(worker.rank.value());
    }
  }
  std::vector<std::string> lines;
  lines.reserve(groups.size() + generation.leftovers.size());
  for (const auto& [text, ranks] : groups) lines.push_back(told_of(ranks, text));
  for (const std::string& process : generation.leftovers) {
    lines.push_back(fmt::format("a process that a worker had left behind was ended: {}", process));
  }
  for (const std::string& process : generation.survivors) {
    lines.push_back(
        fmt::format("a process that a worker had left behind does not end on SIGKILL: {}", process));
  }
  return lines;
}

std::string render_report(const JobOutcome& outcome, const std::optional<RootCause>& root,
                          const ReportContext& context) {
  const std::string first = first_line(outcome, root, context);
  std::string text = printable(first) + "\n";
  text += labelled("before", lines_before(outcome, root, context, first));
  const bool is_ours = root && root->host.empty() && !outcome.generations.empty();
  if (root) text += root_section(*root, is_ours ? &outcome.generations.back() : nullptr);
  std::string facts;
  if (!outcome.generations.empty())
    facts += labelled("then", consequences(outcome.generations.back(), is_ours));
  facts += labelled("restarts", restart_lines(outcome, context));
  if (!context.report_file.empty()) {
    facts += labelled("logs", {context.log_root});
    facts += labelled("report", {context.report_file});
  }
  if (!facts.empty()) text += (root ? "\n" : "") + facts;
  return text;
}

std::string render_restart(const GenerationOutcome& generation, const std::optional<RootCause>& root) {
  if (!root) return generation.why;
  const WorkerOutcome& worker = root->worker;
  const std::string end =
      worker.spawn_error ? "could not be started: " + worker.spawn_error->message() : what_it_did(worker);
  const std::vector<int> same = alike(generation, worker);
  const std::string who =
      same.size() > 1 && is_by_others(worker) ? fmt::format("rank {}: ", worker.rank) : std::string();
  const std::string words =
      root->diagnosis ? fmt::format(" ({}{})", who, printable(*root->diagnosis)) : std::string();
  if (root->victim) {
    return fmt::format("rank {} {} while others waited for it (rank {}: {})", worker.rank, end,
                       root->victim->rank,
                       printable(root->diagnosis.value_or(to_string(*root->victim->status))));
  }
  return told_of(same, end) + words;
}

}  // namespace ddprun::launcher
