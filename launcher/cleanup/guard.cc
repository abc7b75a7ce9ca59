#include "launcher/cleanup/guard.h"

#include "launcher/cleanup/resource_tracker.h"
#include "launcher/process/leave_launcher.h"
#include "launcher/process/pidfd.h"
#include "launcher/process/process_table.h"
#include "rendezvous/base/proc_stat.h"
#include "rendezvous/base/read_text.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::launcher {
namespace {

constexpr const char* kTitle = "job-guard";
// Between two looks at a job whose lease is over: its launcher may be in the middle of starting something.
constexpr Duration kLeaseLooksAgain = std::chrono::milliseconds(200);
constexpr int kDeputyLooksMs = 250;

// Writes our name over the command line that `ps` shows: arg_start and arg_end are fields 48 and 49 of stat.
void set_command_line() {
  const std::string text = read_text("/proc/self/stat");
  // NOLINTBEGIN(performance-no-int-to-ptr): the kernel names the addresses as numbers
  auto* const start = reinterpret_cast<char*>(stat_number(text, 48));
  auto* const end = reinterpret_cast<char*>(stat_number(text, 49));
  // NOLINTEND(performance-no-int-to-ptr)
  if (start == nullptr || end <= start) return;
  const auto size = static_cast<std::size_t>(end - start);
  std::memset(start, 0, size);
  std::string_view(kTitle).copy(start, size - 1);
}

/// The process of one guard: waits on what it watches, for ever.
class GuardProcess {
 public:
  GuardProcess(GuardBoard& board, std::size_t index, JobMarks marks, UniqueFd launcher, UniqueFd nudge)
      : board_(board),
        other_(1 - index),
        marks_(std::move(marks)),
        launcher_(std::move(launcher)),
        nudge_(std::move(nudge)) {}

  [[noreturn]] void run() {
    leave();
    set_command_line();
    timer_ = UniqueFd(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
    drain_nudges();
    for (;;) {
      std::array<pollfd, 4> watched{{{launcher_.get(), POLLIN, 0},
                                     {partner_.get(), POLLIN, 0},
                                     {timer_.get(), POLLIN, 0},
                                     {nudge_.get(), POLLIN, 0}}};
      if (::poll(watched.data(), watched.size(), -1) < 0) continue;
      if (watched[0].revents != 0) end_job();
      if (watched[1].revents != 0) miss_partner();
      if (watched[2].revents != 0) keep_lease();
      if (watched[3].revents != 0) drain_nudges();
    }
  }

 private:
  static_assert(GuardBoard::kGuards == 2, "a guard has one partner");

  void leave() const {
    leave_launcher(kTitle, {launcher_.get(), nudge_.get()});
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &ignore, nullptr);
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  }

  void drain_nudges() {
    std::uint64_t ignored = 0;
    [[maybe_unused]] const ssize_t count = ::read(nudge_.get(), &ignored, sizeof ignored);
    if (const pid_t pid = board_.guard(other_); pid != 0 && pid != partner_pid_) {
      partner_ = open_pidfd(pid);
      partner_pid_ = pid;
    }
    wait_until(board_.lease());
  }

  void wait_until(TimePoint when) const {
    itimerspec spec{};
    if (when != TimePoint::max()) {
      const auto ns = std::max<std::int64_t>(when.time_since_epoch().count(), 1);
      spec.it_value = {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
    }
    ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
  }

  void keep_lease() {
    const TimePoint now = BootClock::now();
    const TimePoint lease = board_.lease();
    if (now < lease) return wait_until(lease);
    // From our first look on: this process may have been frozen, too.
    if (std::exchange(lost_lease_, lease) != lease) trackers_end_at_ = now + kResourceTrackerTime;
    kill_job(with_sessions(), trackers_end_at_, [this] { return BootClock::now() >= board_.lease(); });
    wait_until(now + kLeaseLooksAgain);
  }

  void miss_partner() {
    partner_.reset();
    if (board_.is_over()) return;
    leave_deputy(partner_pid_);
  }

  [[noreturn]] void end_job() {
    launcher_ended_ = BootClock::now();
    if (!board_.is_over()) {
      leave_deputy(0);
      sweep();
    }
    ::_exit(0);
  }

  void sweep() {
    sweep_job(with_sessions());
    board_.set_swept();
  }

  // A child of ours that does what we do if we cannot: as long as the guard `missed` has not been replaced,
  // or, the launcher being gone, until the job is swept.
  void leave_deputy(pid_t missed) {
    UniqueFd self = open_pidfd(::getpid());
    if (::fork() != 0) return;
    ::setsid();
    pollfd launcher{launcher_.get(), POLLIN, 0};
    while (::poll(&launcher, 1, kDeputyLooksMs) == 0) {
      if (board_.guard(other_) != missed) ::_exit(0);
    }
    launcher_ended_ = std::min(launcher_ended_, BootClock::now());
    pollfd parent{self.get(), POLLIN, 0};
    ::poll(&parent, 1, -1);
    if (!board_.is_over() && !board_.is_swept()) sweep();
    ::_exit(0);
  }

  [[nodiscard]] JobMarks with_sessions() const {
    JobMarks marks = marks_;
    const TimePoint as_of = std::min(launcher_ended_, BootClock::now());
    marks.sessions.clear();
    for (const pid_t session : board_.sessions()) marks.sessions.emplace(session, as_of);
    marks.seen = board_.makers();
    return marks;
  }

  GuardBoard& board_;
  std::size_t other_;
  JobMarks marks_;
  UniqueFd launcher_;
  UniqueFd nudge_;
  UniqueFd timer_;
  UniqueFd partner_;
  pid_t partner_pid_ = 0;
  TimePoint lost_lease_{};
  TimePoint trackers_end_at_{};
  TimePoint launcher_ended_ =
      TimePoint::max();  ///< as far as we know: it holds its workers' numbers until then
};

}  // namespace

Result<Guard> Guard::start(GuardBoard& board, std::size_t index, const JobMarks& marks) {
  UniqueFd launcher = open_pidfd(::getpid());
  if (!launcher) return os_error("cannot start the guard process: pidfd_open", errno);
  UniqueFd nudge(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!nudge) return os_error("cannot start the guard process: eventfd", errno);
  // With the thread of file_writer.h alive, which holds nothing that the child needs.
  const pid_t pid = ::fork();
  if (pid < 0) return os_error("cannot start the guard process: fork", errno);
  if (pid == 0) GuardProcess(board, index, marks, std::move(launcher), std::move(nudge)).run();
  board.set_guard(index, pid);
  return Guard(pid, std::move(nudge));
}

Guard::Guard(Guard&& other) noexcept : pid_(std::exchange(other.pid_, 0)), nudge_(std::move(other.nudge_)) {}

Guard& Guard::operator=(Guard&& other) noexcept {
  if (this != &other) {
    end();
    pid_ = std::exchange(other.pid_, 0);
    nudge_ = std::move(other.nudge_);
  }
  return *this;
}

Guard::~Guard() { end(); }

void Guard::end() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
}

void Guard::nudge() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(nudge_.get(), &one, sizeof one);
}

Result<GuardPair> GuardPair::start(GuardBoard board, const JobMarks& marks) {
  auto kept = std::make_unique<GuardBoard>(std::move(board));
  Result<Guard> first = Guard::start(*kept, 0, marks);
  if (!first) return first.error();
  Result<Guard> second = Guard::start(*kept, 1, marks);
  if (!second) return second.error();
  first->nudge();
  return GuardPair(std::move(kept), {std::move(*first), std::move(*second)});
}

GuardPair::~GuardPair() {
  if (board_) board_->set_over();
}

bool GuardPair::has(pid_t pid) const {
  return std::any_of(guards_.begin(), guards_.end(),
                     [pid](const Guard& guard) { return guard.pid() == pid; });
}

void GuardPair::hold_lease(TimePoint until) {
  // Guards that wait for an earlier moment look again then.
  const bool is_later = until >= board_->lease() && board_->lease() != TimePoint::max();
  board_->set_lease(until);
  if (is_later) return;
  for (const Guard& guard : guards_) guard.nudge();
}

Result<void> GuardPair::replace(pid_t pid, const JobMarks& marks) {
  for (std::size_t i = 0; i < guards_.size(); ++i) {
    if (guards_[i].pid() != pid) continue;
    guards_[i].forget();
    Result<Guard> next = Guard::start(*board_, i, marks);
    if (!next) return next.error();
    guards_[i] = std::move(*next);
    for (const Guard& guard : guards_) guard.nudge();
  }
  return ok();
}

}  // namespace ddprun::launcher
