#include "launcher/why/hang/hang_process.h"

#include "launcher/why/desk/other_nodes.h"
#include "launcher/why/look/proc_look.h"
#include "launcher/why/look/rank_record.h"
#include "launcher/why/look/settle.h"
#include "launcher/why/look/socket_diag.h"
#include "launcher/why/look/thread_state.h"
#include "launcher/why/look/work_process.h"
#include "launcher/why/verdict/doing.h"
#include "launcher/why/verdict/page.h"
#include "launcher/why/verdict/straggler.h"
#include "launcher/why/verdict/straggler_watch.h"
#include "rendezvous/base/print.h"

#include <nlohmann/json.hpp>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <utility>

namespace ddprun::launcher::why {
namespace {

/// What is kept of a rank from one pulse to the next.
class Patient {
 public:
  explicit Patient(const RankTarget& target)
      : rank_(target.rank),
        worker_(target.pid),
        started_(target.started),
        pid_(target.pid),
        record_(target.pid) {}

  Pulse feel(const std::vector<ProcessEntry>& processes) {
    recorder_ = {};
    has_recorded_ = false;
    is_gone_ = true;
    if (worker_ == 0 || (started_ != 0 && start_of(worker_) != started_)) return {.rank = rank_};
    // A worker that has recorded something does the work itself. Another process is not searched each time.
    constexpr int kSearchEvery = 5;
    const bool is_clear = pid_ == worker_ && records_;
    ProcessLook look = look_at_process(pid_);
    if (look.threads.empty() || (!is_clear && pulses_++ % kSearchEvery == 0)) {
      if (const pid_t work = find_work_process(worker_, processes); work != pid_) {
        turn_to(work);
        look = look_at_process(pid_);
      }
    }
    if (look.threads.empty()) return {.rank = rank_};
    is_gone_ = false;
    Pulse pulse{.rank = rank_, .pid = pid_, .has_torch = has_torch(pid_)};
    if (!last_.threads.empty()) pulse.is_busy = gets_on(last_, look);
    last_ = look;
    constexpr std::size_t kFew = 16;
    record_.search();
    recorder_ = record_.read(kFew);
    pulse.beats = record_.progress().beats;
    pulse.records = records_ = recorder_.next > 0 || pulse.beats > 0;
    pulse.next = recorder_.next;
    pulse.pending = pending(recorder_).size();
    has_recorded_ = pulse.next + pulse.beats != recorded_;
    recorded_ = pulse.next + pulse.beats;
    return pulse;
  }

  /// Of the last pulse.
  [[nodiscard]] const Recorder& recorder() const { return recorder_; }
  /// Whether it has recorded or told anything from the pulse before to the last one.
  [[nodiscard]] bool has_recorded() const { return has_recorded_; }
  /// Whether there was no such process at the last pulse.
  [[nodiscard]] bool is_gone() const { return is_gone_; }
  /// What came over them. Of a process with NCCL less: what may be signs of life is not counted.
  [[nodiscard]] std::map<std::string, Received> connections(const std::map<std::string, Received>& received) {
    if (is_gone_) return {};
    std::map<std::string, Received> found = connections_of(pid_, received);
    if (!has_nccl(last_)) return found;
    const double seconds = last_.at_s - counted_at_s_;
    std::map<std::string, Counted> counted;
    for (auto& [inode, connection] : found) {
      const auto before = counted_.find(inode);
      Counted& now = counted[inode] =
          before == counted_.end() ? Counted{connection.bytes, connection.bytes} : before->second;
      if (is_more_than_signs_of_life(connection.bytes - now.seen, seconds)) now.counted = connection.bytes;
      now.seen = connection.bytes;
      connection.bytes = now.counted;
    }
    counted_ = std::move(counted);
    counted_at_s_ = last_.at_s;
    return found;
  }

 private:
  void turn_to(pid_t work) {
    pid_ = work;
    record_ = RankRecord(work);
    records_ = false;
    recorded_ = 0;
    last_ = {};
  }

  int rank_;
  pid_t worker_;
  std::uint64_t started_;
  pid_t pid_;  ///< of the process that does the work
  RankRecord record_;
  int pulses_ = 0;
  bool is_gone_ = false;
  bool records_ = false;        ///< at the last pulse
  std::uint64_t recorded_ = 0;  ///< the same
  bool has_recorded_ = false;   ///< more than at the one before
  Recorder recorder_;
  ProcessLook last_;
  struct Counted {
    std::uint64_t seen = 0;     ///< bytes at the last pulse
    std::uint64_t counted = 0;  ///< at the last one to which more than signs of life had come
  };
  std::map<std::string, Counted> counted_;  ///< by a connection's inode
  double counted_at_s_ = 0;
};

Straggler straggler_among(const std::vector<RankTarget>& targets, const std::vector<Patient>& patients) {
  JobPicture picture;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    RankFacts& facts = picture.ranks.emplace_back();
    facts.rank = targets[i].rank;
    facts.recorder = patients[i].recorder();
  }
  return find_straggler(picture);
}

struct Taken {
  JobPicture picture;
  bool has_asked = true;
};

Taken take_picture(JobPicture picture, const std::vector<RankTarget>& targets, const HangLimits& limits,
                   bool is_time_over) {
  picture.ranks = look_at_ranks(targets, {});
  picture.taken_ns = std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
  settle(picture);
  if (limits.is_alone) return {std::move(picture)};
  if (!asks_others(judge(picture), is_time_over)) return {std::move(picture), false};
  Question question(picture.launcher, LookKind::kWhy);
  hear_others(question, std::chrono::steady_clock::now() + kWhyAnswerTime, picture);
  return {std::move(picture)};
}

HangPolicy::Sight sight_of(const Taken& taken, const Verdict& verdict,
                           const std::vector<RankTarget>& targets) {
  const JobPicture& picture = taken.picture;
  const auto any = [&](auto is_it) {
    return std::any_of(targets.begin(), targets.end(),
                       [&](const RankTarget& target) { return is_it(target.rank); });
  };
  const bool is_whole = std::all_of(picture.ranks.begin(), picture.ranks.end(),
                                    [](const RankFacts& facts) { return facts.siblings == 0; });
  const bool are_read = std::all_of(picture.ranks.begin(), picture.ranks.end(), was_read);
  return {.sees_all = is_whole && are_read && picture.unseen.empty() &&
                      picture.ranks.size() == static_cast<std::size_t>(picture.world_size),
          .has_asked = taken.has_asked,
          .has_guilty = any([&](int rank) {
            return std::find(verdict.guilty.begin(), verdict.guilty.end(), rank) != verdict.guilty.end();
          }),
          .has_rank_0 = any([](int rank) { return rank == 0; }),
          .has_waiting = any([&](int rank) {
            return std::find(verdict.waiting.begin(), verdict.waiting.end(), rank) != verdict.waiting.end();
          }),
          .has_siblings = !is_whole};
}

std::vector<Pulse> feel_all(std::vector<Patient>& patients) {
  std::vector<Pulse> pulses;
  const std::vector<ProcessEntry> processes = read_processes();
  for (Patient& patient : patients) pulses.push_back(patient.feel(processes));
  // Messages are of use where nothing else shows that a rank gets on.
  const bool is_known = std::all_of(patients.begin(), patients.end(), [](const Patient& patient) {
    return patient.has_recorded() || patient.is_gone();
  });
  if (patients.size() < 2 || is_known) return pulses;
  const std::map<std::string, Received> received = tcp_received();
  std::vector<std::map<std::string, Received>> of_ranks;
  for (Patient& patient : patients) of_ranks.push_back(patient.connections(received));
  add_messages(pulses, of_ranks);
  return pulses;
}

/// Collectives; of the rank that has begun the fewest.
std::uint64_t begun_by_all(const std::vector<Patient>& patients) {
  std::uint64_t fewest = patients.empty() ? 0 : patients.front().recorder().next;
  for (const Patient& patient : patients) fewest = std::min(fewest, patient.recorder().next);
  return fewest;
}

void watch(JobPicture known, const std::vector<RankTarget>& targets, HangLimits limits, QuietSince& quiet,
           int out) {
  std::vector<Patient> patients(targets.begin(), targets.end());
  const double period = std::clamp(limits.first_s() / 4, 0.2, 15.0);
  double last = boot_time();
  HangPolicy policy(limits, last);
  StragglerWatch stragglers;
  bool was_slow = false;  // the look before
  for (;;) {
    // While the launcher is stopped (Ctrl-Z) its workers are as well; and where this very process came back late, the
    // machine was suspended, or its container.
    const double now = boot_time();
    if (now - last > 4 * period + 1 || is_stopped(look_at_process(known.launcher)))
      policy = HangPolicy(limits, now);
    const bool is_due = policy.note(feel_all(patients), boot_time());
    quiet.tell(policy.shown_at());
    const auto straggler = stragglers.note(begun_by_all(patients), straggler_among(targets, patients));
    if (straggler && !print_all(out, to_text(*straggler) + "\n")) return;
    if (is_due) {
      const double began = boot_time();
      const bool is_time_over = limits.timeout_s > 0 && policy.quiet_s(boot_time()) >= limits.timeout_s;
      const Taken taken = take_picture(known, targets, limits, is_time_over);
      const Verdict verdict = judge(taken.picture);
      // All may have been stopped meanwhile, the watch as well. Of two slow looks in a row that is no reason.
      const bool is_slow = boot_time() - began > 4 * period + 1;
      if (is_slow && !std::exchange(was_slow, is_slow)) {
        last = boot_time();
        policy = HangPolicy(limits, last);
        continue;
      }
      was_slow = is_slow;
      HangPolicy::Say say = policy.decide(verdict, sight_of(taken, verdict, targets), boot_time());
      // A look takes its time, and the answers of others theirs: what was seen late in it may be of a job that got on.
      if (say != HangPolicy::Say::kNothing) {
        const double then = boot_time();
        policy.note(feel_all(patients), then);
        if (say == HangPolicy::Say::kEnd ? policy.has_moved() : policy.has_moved(verdict, then))
          say = HangPolicy::Say::kNothing;
      }
      const Hang news{.ends = say == HangPolicy::Say::kEnd,
                      .guilty = verdict.guilty,
                      .have_ended = !verdict.guilty.empty() && have_ended(verdict),
                      .reason = verdict.reason,
                      .page = render(taken.picture, verdict)};
      if (say != HangPolicy::Say::kNothing) {
        if (!print_all(out, to_text(news) + "\n")) return;
        policy.told(verdict, boot_time());
      }
    }
    last = boot_time();
    const timespec nap{static_cast<time_t>(period),
                       static_cast<long>((period - static_cast<double>(static_cast<time_t>(period))) * 1e9)};
    ::nanosleep(&nap, nullptr);
  }
}

nlohmann::json to_json(const News& news) {
  if (const auto* const straggler = std::get_if<Straggler>(&news))
    return {{"rank", straggler->rank}, {"late_s", straggler->late_s}, {"share", straggler->share}};
  const Hang& hang = std::get<Hang>(news);
  return {{"ends", hang.ends},
          {"guilty", hang.guilty},
          {"have_ended", hang.have_ended},
          {"reason", hang.reason},
          {"page", hang.page}};
}

}  // namespace

std::string to_text(const News& news) {
  return to_json(news).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<News> parse_news(std::string_view line) {
  const nlohmann::json parsed = nlohmann::json::parse(line, nullptr, false);
  try {
    if (parsed.contains("late_s"))
      return Straggler{.rank = parsed.at("rank"), .late_s = parsed.at("late_s"), .share = parsed.at("share")};
    return Hang{.ends = parsed.at("ends"),
                .guilty = parsed.at("guilty"),
                .have_ended = parsed.at("have_ended"),
                .reason = parsed.at("reason"),
                .page = parsed.at("page")};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

Result<Beside> start_hang_process(const JobPicture& picture, const std::vector<RankTarget>& targets,
                                  HangLimits limits, QuietSince& quiet) {
  return start_beside("hang-watch", [&](int out) { watch(picture, targets, limits, quiet, out); });
}

}  // namespace ddprun::launcher::why
