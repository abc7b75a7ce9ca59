#include "launcher/report/reporter.h"

#include "launcher/output/log_file.h"
#include "launcher/report/old_reports.h"
#include "launcher/text/text.h"
#include "rendezvous/base/env_contract.h"
#include "rendezvous/base/format_duration.h"
#include "rendezvous/base/unique_fd.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <utility>

namespace ddprun::launcher {
namespace {

Result<void> write_file(const std::string& path, const std::string& text) {
  // Not blocking: it may have become a FIFO.
  const UniqueFd file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666));
  if (!file) return os_error("cannot write " + path, errno);
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::write(file.get(), text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return os_error("cannot write " + path, errno);
    done += static_cast<std::size_t>(count);
  }
  return ok();
}

/// Whole or not at all.
Result<void> replace_file(const std::string& path, const std::string& text) {
  // The agent has removed a temporary log directory that held nothing.
  if (Result<void> made = make_directories(std::filesystem::path(path).parent_path().string()); !made)
    return made;
  const std::string unfinished = path + ".new";
  Result<void> written = write_file(unfinished, text);
  if (written && ::rename(unfinished.c_str(), path.c_str()) != 0)
    written = os_error("cannot write " + path, errno);
  if (!written) ::unlink(unfinished.c_str());
  return written;
}

const WorkerOutcome* find_worker(const GenerationOutcome& generation, Rank rank) {
  const auto found = std::find_if(generation.workers.begin(), generation.workers.end(),
                                  [rank](const WorkerOutcome& worker) { return worker.rank == rank; });
  return found == generation.workers.end() ? nullptr : &*found;
}

/// Of a worker that left with 0 or stood still it may be `ours` after all.
RootCause root_cause_told(const membership::NodeFailure& told, const WorkerOutcome* ours) {
  const membership::Account& account = told.account;
  RootCause root{.host = told.host, .what = told.what};
  if (ours != nullptr) {
    root.worker = *ours;
  } else {
    static_cast<membership::WorkerEnd&>(root.worker) = *told.worker;
    root.worker.end_kind = EndKind::kRootCause;
    root.worker.ended_at += root.worker.ended_wall - root.worker.started_wall;
    root.worker.stderr_tail = account.stderr_tail;
  }
  if (told.victim) {
    root.victim.emplace().rank = *told.victim;
    root.victim->stderr_tail = account.stderr_tail;
  }
  if (!account.diagnosis.empty()) root.diagnosis = account.diagnosis;
  if (!account.error_message.empty() && !told.victim)
    root.error_file = {account.error_message, account.error_stack, {}};
  if (account.is_traceback) {
    root.exception = {.bearing = Bearing::kUncaught};
    for (const std::string_view line : split_lines(account.stderr_tail))
      root.exception->traceback.shown.emplace_back(line);
  }
  return root;
}

}  // namespace

Reporter::Reporter(const Plan& plan, std::function<void(std::string_view text)> print, FilesBeside& files)
    : plan_(plan),
      print_(std::move(print)),
      files_(files),
      context_{.title = plan.title,
               .hostname = plan.host.hostname,
               .run_id = plan.options.run_id,
               .log_root = plan.log_root,
               .report_file = plan.log_root.empty() ? std::string() : plan.log_root + "/report.json",
               .max_restarts = plan.options.max_restarts,
               .restart_window = plan.options.max_restarts_window} {}

void Reporter::note_hang(int rank, HangEnd end, const std::string& page) {
  hangs_[rank] = std::move(end);
  context_.hang_page = page;
}

HangEnd Reporter::hang_of(Rank rank) const {
  const auto found = hangs_.find(rank.value());
  return found == hangs_.end() ? HangEnd() : found->second;
}

RootCause Reporter::examine(const WorkerOutcome& worker, const WorkerOutcome* victim) {
  RootCause root{worker, std::nullopt, load_error_file(worker)};
  root.unread_error_file = why_unreadable(worker);
  if (victim != nullptr) root.victim = *victim;
  const WorkerOutcome& speaker = root.speaker();
  if (!speaker.status) return root;
  Evidence evidence = gather_evidence(*speaker.status, speaker.pid, oom_, space_.value_or(Evidence{}));
  if (speaker.is_killed_for_hang()) evidence.hang = speaker.hang.reason;
  evidence.passed_on = speaker.passed_on;
  const std::optional<ErrorFile> file = victim == nullptr ? root.error_file : load_error_file(speaker);
  const LastWords words = last_words(speaker, file);
  root.exception = last_exception(*speaker.status, words);
  root.diagnosis = diagnose(*speaker.status, words, evidence);
  return root;
}

std::optional<RootCause> Reporter::root_cause_of(const GenerationOutcome& generation) {
  if (const auto& told = generation.told_cause)
    return root_cause_told(*told, find_worker(generation, told->worker->rank));
  if (!generation.root_cause) return std::nullopt;
  const WorkerOutcome& worker = generation.workers[*generation.root_cause];
  const WorkerOutcome* victim = generation.victim ? &generation.workers[*generation.victim] : nullptr;
  return examine(worker, victim);
}

membership::Account Reporter::account_of(const WorkerOutcome& worker) {
  const RootCause root = examine(worker, nullptr);
  membership::Account account{.diagnosis = root.diagnosis.value_or(""), .stderr_tail = worker.stderr_tail};
  if (root.error_file) {
    account.error_message = root.error_file->message;
    account.error_stack = root.error_file->stack;
  }
  // A traceback says more than its last lines. What followed it may matter, too, and there is room for one of them.
  const std::optional<LastException>& last = root.exception;
  account.is_traceback =
      last && last->is_of_this_end() && (last->bearing == Bearing::kUncaught || last->lines_after == 0);
  if (account.is_traceback) account.stderr_tail = fmt::format("{}\n", fmt::join(last->traceback.shown, "\n"));
  return account;
}

void Reporter::round_begins(const membership::Round&) {
  hangs_.clear();
  space_.reset();
  oom_.begin_generation();
}

void Reporter::worker_exited(const membership::Round&, const WorkerOutcome& worker) {
  if (space_ || !worker.status || worker.status->is_success()) return;
  space_ = look_at_space({plan_.host.working_directory, plan_.log_root, plan_.host.temporary_directory});
}

void Reporter::generation_ended(const GenerationOutcome& outcome) {
  // Several nodes are told in one sentence for all.
  if (outcome.reason == StopReason::kSucceeded || plan_.options.max_nodes > 1) return;
  pending_restart_ = render_restart(outcome, root_cause_of(outcome));
}

void Reporter::restarting(const membership::Restart& restart) {
  const std::string why = std::exchange(pending_restart_, {});
  const std::string wait = restart.delay > Duration::zero()
                               ? fmt::format(" in {}", format_duration(restart.delay))
                               : std::string();
  // Changes of membership cost nothing.
  const std::string budget =
      restart.number > 0 ? fmt::format(": restart {} of {}", restart.number, restart.allowed) : std::string();
  print_(fmt::format("ddprun: {}; starting all workers again{}{}\n", why.empty() ? restart.why : why, wait,
                     budget));
}

void Reporter::finish(const JobOutcome& outcome) {
  if (outcome.exit_code == 0) return report_recovery(outcome);
  const WorkerOutcome* ours = nullptr;
  if (const auto& told = outcome.told_cause) {
    const bool was_here = !outcome.generations.empty() && outcome.generations.back().told_cause == told;
    if (was_here) ours = find_worker(outcome.generations.back(), told->worker->rank);
    root_ = root_cause_told(*told, ours);
  } else if (outcome.granted_restart && outcome.granted_restart->cause) {
    root_ = root_cause_told(*outcome.granted_restart->cause, nullptr);
  } else if (!outcome.generations.empty() &&
             (outcome.reason != StopReason::kSignal || outcome.granted_restart)) {
    root_ = root_cause_of(outcome.generations.back());
  }
  // Who pressed Ctrl-C knows why the job ended, and asked for no files.
  if (outcome.reason == StopReason::kSignal && plan_.log_root_is_temporary) context_.report_file.clear();
  print_(render_report(outcome, root_, context_));
  write_report(outcome);
  if (root_ && (root_->host.empty() || ours != nullptr) && !outcome.granted_restart)
    propagate_error_file(*root_, outcome.exit_code);
}

// Whoever keeps logs wants to know why it took more than one generation.
void Reporter::report_recovery(const JobOutcome& outcome) {
  if (plan_.log_root_is_temporary) return;
  const auto failed = std::find_if(outcome.generations.rbegin(), outcome.generations.rend(),
                                   [](const GenerationOutcome& one) {
                                     return one.root_cause || one.reason == StopReason::kWorkerFailed ||
                                            one.reason == StopReason::kSpawnFailed || one.told_cause;
                                   });
  if (failed == outcome.generations.rend()) return;
  root_ = root_cause_of(*failed);
  write_report(outcome);
}

void Reporter::write_report(const JobOutcome& outcome) {
  if (context_.report_file.empty()) return;
  std::string text = report_json(outcome, root_, context_);
  const std::size_t bytes = text.size();
  const std::string pruned = plan_.log_root_is_temporary ? plan_.host.temporary_directory : "";
  files_.make(
      context_.report_file, bytes,
      [path = context_.report_file, pruned, text = std::move(text)] {
        if (!pruned.empty()) prune_old_reports(pruned, std::chrono::system_clock::now());
        return replace_file(path, text);
      },
      [this](const Result<void>& written) {
        if (written) {
          written_report_ = context_.report_file;
        } else {
          print_(fmt::format("ddprun: {}\n", written.error().message()));
        }
      });
}

void Reporter::finish_output(const JobOutcome& outcome) {
  if (outcome.lost_output.empty()) return;
  for (const LostOutput& lost : outcome.lost_output) {
    print_(fmt::format("ddprun: {}\n", to_string(lost)));
  }
  if (!written_report_.empty()) write_report(outcome);
}

void Reporter::propagate_error_file(const RootCause& root, int exit_code) {
  const std::string path = plan_.host.env(env_name::kErrorFile).value_or("");
  if (path.empty()) return;
  const long now =
      std::chrono::duration_cast<std::chrono::seconds>(root.worker.ended_wall.time_since_epoch()).count();
  // As torchrun writes it: a signal is its number, negated.
  const auto& status = root.worker.status;
  const int code = status && status->is_killed() ? -status->signal() : exit_code;
  const std::string written = root.worker.error_file_is_old ? "" : error_file_text(root.worker.error_file);
  std::string text = propagated_error(written, headline(root.worker, context_.hostname), code, now);
  const std::size_t bytes = text.size();
  files_.make(
      path, bytes, [path, text = std::move(text)] { return write_file(path, text); },
      [this](const Result<void>& made) {
        if (!made) print_(fmt::format("ddprun: {}\n", made.error().with(env_name::kErrorFile).message()));
      });
}

}  // namespace ddprun::launcher
