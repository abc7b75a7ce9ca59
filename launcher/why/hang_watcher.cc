#include "launcher/why/hang_watcher.h"

#include "launcher/process/pidfd.h"
#include "launcher/why/beside.h"
#include "launcher/why/doing.h"
#include "launcher/why/flight_recorder.h"
#include "launcher/why/page.h"
#include "launcher/why/proc_look.h"
#include "launcher/why/process_memory.h"
#include "launcher/why/settle.h"
#include "launcher/why/thread_state.h"
#include "launcher/why/work_process.h"
#include "rendezvous/base/print.h"

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <utility>

namespace ddprun::launcher::why {
namespace {

/// What is kept of a rank from one pulse to the next.
class Patient {
 public:
  explicit Patient(const RankTarget& target)
      : worker_(target.pid), started_(target.started), pid_(target.pid), memory_(target.pid) {}

  Pulse feel(const std::vector<ProcessEntry>& processes) {
    if (worker_ == 0 || (started_ != 0 && start_of(worker_) != started_)) return {};
    if (const pid_t work = find_work_process(worker_, processes); work != pid_) turn_to(work);
    const ProcessLook look = look_at_process(pid_);
    if (look.threads.empty()) return {};
    Pulse pulse{.pid = pid_, .has_torch = has_torch(pid_)};
    if (!last_.threads.empty()) pulse.is_busy = gets_on(last_, look);
    last_ = look;
    if (places_.empty()) places_ = find_recorders(pid_);
    for (const std::uint64_t place : places_) {
      constexpr std::size_t kFew = 16;
      const Recorder recorder = read_recorder(memory_.reader(), place, kFew);
      if (recorder.next == 0) continue;
      pulse.records = true;
      pulse.next += recorder.next;
      pulse.pending += pending(recorder).size();
    }
    return pulse;
  }

 private:
  void turn_to(pid_t work) {
    pid_ = work;
    memory_ = ProcessMemory(work);
    places_.clear();
    last_ = {};
  }

  pid_t worker_;
  std::uint64_t started_;
  pid_t pid_;  ///< of the process that does the work
  ProcessMemory memory_;
  std::vector<std::uint64_t> places_;
  ProcessLook last_;
};

void watch(JobPicture picture, const std::vector<RankTarget>& targets, HangLimits limits, int out) {
  std::vector<Patient> patients(targets.begin(), targets.end());
  const double period = std::clamp(limits.first_s() / 4, 0.2, 15.0);
  double last = boot_time();
  HangPolicy policy(limits, last);
  for (;;) {
    // While the launcher is stopped (Ctrl-Z) its workers are as well; and where this very process came back late, the
    // machine was suspended, or its container.
    const double now = boot_time();
    if (now - last > 4 * period + 1 || is_stopped(look_at_process(picture.launcher)))
      policy = HangPolicy(limits, now);
    std::vector<Pulse> pulses;
    const std::vector<ProcessEntry> processes = read_processes();
    for (Patient& patient : patients) pulses.push_back(patient.feel(processes));
    if (policy.note(std::move(pulses), boot_time())) {
      picture.ranks = look_at_ranks(targets, {});
      picture.taken_ns =
          std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
      settle(picture);
      const Verdict verdict = judge(picture);
      const HangPolicy::Say say = policy.decide(verdict, boot_time());
      const HangNews news{.ends = say == HangPolicy::Say::kEnd,
                          .guilty = verdict.guilty,
                          .reason = verdict.reason,
                          .page = render(picture, verdict)};
      if (say != HangPolicy::Say::kNothing && !print_all(out, to_text(news) + "\n")) return;
    }
    last = boot_time();
    const timespec nap{static_cast<time_t>(period),
                       static_cast<long>((period - static_cast<double>(static_cast<time_t>(period))) * 1e9)};
    ::nanosleep(&nap, nullptr);
  }
}

}  // namespace

std::string to_text(const HangNews& news) {
  const nlohmann::json line{
      {"ends", news.ends}, {"guilty", news.guilty}, {"reason", news.reason}, {"page", news.page}};
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<HangNews> parse_news(std::string_view line) {
  const nlohmann::json parsed = nlohmann::json::parse(line, nullptr, false);
  try {
    return HangNews{.ends = parsed.at("ends"),
                    .guilty = parsed.at("guilty"),
                    .reason = parsed.at("reason"),
                    .page = parsed.at("page")};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

Result<HangWatcher> HangWatcher::start(const JobPicture& picture, const std::vector<RankTarget>& targets,
                                       HangLimits limits) {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return os_error("cannot start the watch for hangs: pipe", errno);
  UniqueFd news(ends[0]);
  const UniqueFd write_end(ends[1]);
  ::fcntl(news.get(), F_SETFL, O_NONBLOCK);
  Result<UniqueFd> pidfd =
      start_beside("hang-watch", write_end.get(), [&](int out) { watch(picture, targets, limits, out); });
  if (!pidfd) return pidfd.error();
  return HangWatcher(std::move(*pidfd), std::move(news));
}

HangWatcher::~HangWatcher() {
  if (pidfd_) signal_pidfd(pidfd_, SIGKILL);
}

}  // namespace ddprun::launcher::why
