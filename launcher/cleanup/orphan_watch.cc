#include "launcher/cleanup/orphan_watch.h"

#include "launcher/cleanup/limit_tag.h"
#include "launcher/cleanup/shm_files.h"

#include <boost/asio/post.hpp>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cstddef>
#include <utility>

namespace ddprun::launcher {

Result<std::unique_ptr<OrphanWatch>> OrphanWatch::start(boost::asio::io_context& io, const Plan& plan,
                                                        JobOutput& output, Logger& logger) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::unique_ptr<OrphanWatch> watch(new OrphanWatch(io, output, logger));
  watch->cgroup_ = JobCgroup::create(plan.job_tag);
  watch->marks_.tag = plan.job_tag;
  if (plan.log_root_is_temporary) watch->marks_.temporary_logs = plan.log_root;
  watch->marks_.started = file_clock_now();
  watch->marks_.born = BootClock::now();
  watch->marks_.lock_limit = usable_tag_limit(plan.job_tag);
  if (watch->cgroup_) watch->marks_.cgroup = watch->cgroup_->path();
  Result<GuardBoard> board = GuardBoard::make(static_cast<std::size_t>(plan.local_world_size.value()));
  if (!board) return board.error();
  Result<GuardPair> guards = GuardPair::start(std::move(*board), watch->marks_);
  if (!guards) return guards.error();
  watch->guards_.emplace(std::move(*guards));
  return watch;
}

void OrphanWatch::mark(SpawnRequest& request) {
  request.session = guards_->free_session();
  request.lock_limit = marks_.lock_limit;
  if (lifeline_) request.lifeline_fd = lifeline_->fd();
  if (cgroup_) request.cgroup_fd = cgroup_->fd();
}

void OrphanWatch::worker_started(pid_t pid) {
  running_.insert(pid);
  marks_.sessions[pid] = TimePoint::max();
}

void OrphanWatch::worker_ended(pid_t pid) {
  // Stamps of processes are cut to the tick of a clock: who seems to be born just before has no certain place.
  constexpr std::chrono::milliseconds kTicks(40);
  running_.erase(pid);
  marks_.sessions[pid] = BootClock::now() - kTicks;
  guards_->end_session(pid);
  // Posted: the exit comes first.
  if (reap_again_) boost::asio::post(io_, gate_.pass([this] { reap(); }));
}

void OrphanWatch::reap() {
  reap_again_ = false;
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) break;
    const pid_t pid = info.si_pid;
    if (running_.contains(pid)) {
      reap_again_ = true;
      break;
    }
    if (const std::optional<ProcessEntry> ended = read_process(pid); ended && is_of_job(*ended, marks_))
      guards_->note_ended(pid);
    ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG);
    if (guards_->has(pid)) replace_guard(pid);
  }
  if (on_reaped_) on_reaped_();
  leftovers_.children_changed();
}

void OrphanWatch::replace_guard(pid_t pid) {
  if (Result<void> replaced = guards_->replace(pid, marks_); !replaced) {
    output_.say(fmt::format("a guard process was killed and {}; the other one still watches",
                            replaced.error().message()));
  } else {
    logger_.info("guard process {} was killed; another has taken its place", pid);
  }
}

void OrphanWatch::remove_segments() {
  remove_torch_segments(guards_->makers(), marks_.started);
  guards_->forget_ended();  // not before: if this process is killed, they remove what it has not
  std::erase_if(marks_.sessions, [this](const auto& session) { return !running_.contains(session.first); });
}

void OrphanWatch::sweep(SweepMode mode, std::function<void(Leftovers)> on_done) {
  if (cgroup_ && mode == SweepMode::kKillAtOnce && !has_resource_tracker(cgroup_->path()))
    kill_cgroup(cgroup_->path());
  const auto is_left = [this](const ProcessEntry& child) {
    return !running_.contains(child.pid) && is_of_job(child, marks_);
  };
  leftovers_.start(mode, is_left, [this, done = std::move(on_done)](Leftovers leftovers) mutable {
    boost::asio::post(io_, gate_.pass([done = std::move(done), found = std::move(leftovers)]() mutable {
      done(std::move(found));
    }));
  });
}

}  // namespace ddprun::launcher
