#include "launcher/why/look/look.h"

#include "launcher/process/pipe.h"
#include "launcher/process/process_table.h"
#include "launcher/why/facts/facts_json.h"
#include "launcher/why/look/native_stack.h"
#include "launcher/why/look/proc_look.h"
#include "launcher/why/look/process_memory.h"
#include "launcher/why/look/python_stack.h"
#include "launcher/why/look/rank_record.h"
#include "launcher/why/look/socket_diag.h"
#include "launcher/why/look/system_calls.h"
#include "launcher/why/look/thread_state.h"
#include "launcher/why/look/work_process.h"
#include "rendezvous/base/host_name.h"
#include "rendezvous/base/print.h"
#include "rendezvous/base/read_text.h"
#include "rendezvous/base/unique_fd.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

namespace ddprun::launcher::why {
namespace {

constexpr std::size_t kEntriesOfARank = 64;
constexpr std::size_t kMostChildren = 64;

std::string command_of(pid_t pid) {
  std::string text = read_text(fmt::format("/proc/{}/cmdline", pid));
  while (!text.empty() && text.back() == '\0') text.pop_back();
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text.substr(0, 200);
}

Object object_of_main_call(pid_t pid, const ProcessMemory& memory, const SystemCall& call) {
  const int argument = path_argument(call.number);
  const std::string path = argument < 0 || !memory.problem().empty()
                               ? std::string()
                               : memory.text_at(call.arguments[static_cast<std::size_t>(argument)]);
  return object_of(pid, call, path);
}

void sleep_for(std::chrono::milliseconds time) {
  const timespec nap{time.count() / 1000, (time.count() % 1000) * 1'000'000};
  ::nanosleep(&nap, nullptr);
}

/// One of the processes that look: says what it knows whenever it knows more.
class Looker {
 public:
  Looker(const RankTarget& target, int out)
      : target_(target), pid_(find_work_process(target.pid, read_processes())), out_(out), record_(pid_) {
    facts_.rank = target.rank;
    facts_.local_rank = target.local_rank;
    facts_.pid = pid_;
    facts_.host = host_name();
    facts_.program = command_of(pid_);
    facts_.siblings = count_siblings(target.pid, pid_, read_processes());
  }

  void look(std::chrono::milliseconds between) {
    facts_.first = look_at_process(pid_);
    if (facts_.first.threads.empty() || !is_worker_there()) return say_end();
    const std::vector<pid_t> children = descendants(pid_, read_processes());
    for (std::size_t i = 0; i < std::min(children.size(), kMostChildren); ++i)
      child_looks_.push_back({children[i], look_at_process(children[i])});
    facts_.problem = record_.memory().problem();
    say();
    record_.search();
    facts_.recorder_first = record_.read_with_lingering(kEntriesOfARank);
    facts_.progress_first = record_.progress();
    received_first_ = tcp_received();
    sleep_for(between);
    facts_.second = look_at_process(pid_);
    if (facts_.second.started != facts_.first.started) return say_end();
    record_.search();
    facts_.recorder = record_.read_with_lingering(kEntriesOfARank);
    facts_.recorder.memberships = record_.memberships();
    note_what_is_not_recorded(facts_);
    facts_.progress = record_.progress();
    received_ = tcp_received();
    const std::map<std::string, Received> received = connections_of(pid_, received_);
    facts_.connections = tcp_connections(pid_);
    count_what_moved(received);
    say();
    const SystemCall& call = facts_.second.threads.front().call;
    if (call == facts_.first.threads.front().call)
      facts_.object = object_of_main_call(pid_, record_.memory(), call);
    const std::set<std::string> awaited =
        awaited_files(pid_, facts_.second.threads.front(), record_.memory());
    facts_.object.silent_s = silence_of(awaited, received);
    facts_.object.is_store = lead_to_port(awaited, received, variable_of(pid_, "MASTER_PORT"));
    look_at_children();
    say();
    look_at_file_servers();
    const std::string py_spy = runs_python(pid_) ? find_py_spy(pid_) : std::string();
    look_at_python(py_spy);
    look_at_native();
    look_at_python_of_children(py_spy);
    read_sources();
  }

 private:
  struct ChildLook {
    pid_t pid = 0;
    ProcessLook first;
  };

  void say() { print_all(out_, to_text(facts_) + "\n"); }

  [[nodiscard]] bool is_worker_there() const {
    const std::uint64_t started = start_of(target_.pid);
    return started != 0 && (target_.started == 0 || started == target_.started);
  }

  /// Where the worker is a script, its program may have ended and the script goes on.
  void say_end() {
    const bool goes_on = pid_ != target_.pid && is_worker_there();
    facts_.pid = goes_on ? target_.pid : 0;
    facts_.second = {};
    if (goes_on) facts_.problem = "its script went from one program to the next meanwhile";
    say();
  }

  /// But over those to the store: who asks it again and again for a key gets on with nothing.
  void count_what_moved(const std::map<std::string, Received>& second) {
    const std::string store = ":" + variable_of(pid_, "MASTER_PORT");
    for (const auto& [inode, now] : second) {
      own_connections_.insert(inode);
      const auto before = received_first_.find(inode);
      if (before == received_first_.end() || (store.size() > 1 && now.remote.ends_with(store))) continue;
      for (Connection& connection : facts_.connections) {
        if (connection.local != now.local || connection.remote != now.remote) continue;
        connection.came = now.bytes - before->second.bytes;
        connection.went = now.acknowledged - before->second.acknowledged;
      }
    }
  }

  /// Over a child's TCP connections, in both directions, but those that it has inherited.
  [[nodiscard]] std::uint64_t moved_by(pid_t child) const {
    std::uint64_t bytes = 0;
    for (const auto& [inode, now] : connections_of(child, received_)) {
      const auto before = received_first_.find(inode);
      if (before == received_first_.end() || own_connections_.contains(inode)) continue;
      bytes += now.bytes - before->second.bytes + now.acknowledged - before->second.acknowledged;
    }
    return bytes;
  }

  /// Pipes only: of a socket the other end has another name, and who has the same one has inherited it.
  [[nodiscard]] std::set<std::string> awaited_pipes() const {
    std::set<std::string> pipes;
    for (const ThreadLook& thread : facts_.second.threads) {
      // CUDA's own wake themselves by pipes, which forked children have inherited, and so does gloo's, in epoll.
      if (thread.name.starts_with("cuda")) continue;
      std::set<std::string> files = awaited_files(pid_, thread, record_.memory());
      std::erase_if(files, [](const std::string& file) { return !file.starts_with("pipe:"); });
      if (is_epoll(thread.call.number))
        std::erase_if(files, [&](const std::string& file) { return writes_to_any(pid_, {file}); });
      pipes.merge(files);
    }
    return pipes;
  }

  void look_at_children() {
    const std::set<std::string> awaited = child_looks_.empty() ? std::set<std::string>() : awaited_pipes();
    for (const ChildLook& child : child_looks_) {
      const ProcessLook now = look_at_process(child.pid);
      if (now.threads.empty() || child.first.threads.empty()) continue;
      const ThreadLook& main = now.threads.front();
      const bool is_same_call = main.call == child.first.threads.front().call;
      const double seconds = now.at_s - child.first.at_s;
      const std::uint64_t moved = moved_by(child.pid);
      const bool transfers = is_more_than_signs_of_life(moved, seconds);
      const double moved_per_s = transfers ? static_cast<double>(moved) / seconds : 0;
      facts_.children.push_back({.pid = child.pid,
                                 .name = main.name,
                                 .state = main.state,
                                 .call = is_same_call ? main.call : SystemCall{},
                                 .object = is_same_call ? object_of(child.pid, main.call, {}) : Object{},
                                 .is_busy = transfers || gets_on(child.first, now),
                                 .bytes_per_s = std::max(moved_per_s, bytes_per_second(child.first, now)),
                                 .feeds = writes_to_any(child.pid, awaited),
                                 .python = {}});
    }
  }

  /// Last of what /proc tells: on a machine with many processes it takes long to find them.
  void look_at_file_servers() {
    if (!awaits_file_server(facts_.first.threads.front()) ||
        !awaits_file_server(facts_.second.threads.front()))
      return;
    std::vector<ChildLook> looks;
    for (const pid_t server : file_servers(facts_.object.device, pid_, read_processes()))
      looks.push_back({server, look_at_process(server)});
    if (looks.empty()) return;
    sleep_for(std::chrono::milliseconds(500));
    for (const ChildLook& server : looks) {
      const ProcessLook now = look_at_process(server.pid);
      if (now.threads.empty() || server.first.threads.empty()) continue;
      facts_.file_servers.push_back({.pid = server.pid,
                                     .name = now.threads.front().name,
                                     .state = now.threads.front().state,
                                     .call = {},
                                     .object = {},
                                     .is_busy = does_anything(server.first, now),
                                     .bytes_per_s = bytes_per_second(server.first, now),
                                     .feeds = false,
                                     .python = {}});
    }
    say();
  }

  void look_at_python(const std::string& py_spy) {
    if (!runs_python(pid_)) return;
    if (py_spy.empty()) {
      facts_.python_problem =
          "py-spy shows the line of Python: pip install py-spy, into the job's environment or anywhere on "
          "PATH";
      return say();
    }
    constexpr std::chrono::milliseconds kPatience{1000};
    PythonStacks stacks = python_stacks(py_spy, pid_, kPatience);
    facts_.python = std::move(stacks.threads);
    facts_.python_problem = std::move(stacks.problem);
    say();
  }

  /// Of a few children that do not get on: theirs is what the rank may wait for.
  void look_at_python_of_children(const std::string& py_spy) {
    if (py_spy.empty()) return;
    using std::chrono::milliseconds;
    const auto end = std::chrono::steady_clock::now() + milliseconds(1000);
    std::size_t most = 8;
    for (Child& child : facts_.children) {
      const bool may_matter = child.name.find("python") != std::string::npos || child.name.starts_with("pt_");
      if (!may_matter || child.is_busy || most == 0) continue;
      --most;
      const auto left = std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now());
      if (left <= milliseconds::zero()) break;
      child.python = python_stacks(py_spy, child.pid, std::min(left, milliseconds(500))).threads;
    }
    say();
  }

  /// The last of all: files are opened, which can hang.
  void read_sources() {
    read_source_lines(pid_, facts_.python);
    say();
    for (Child& child : facts_.children) read_source_lines(child.pid, child.python);
    say();
  }

  /// Only where the other facts leave something open, and where it can do no harm: a process in the kernel's hands
  /// must not be asked to stop. Python's lines do not tell who waits for a GPU.
  void look_at_native() {
    const bool has_pending =
        std::any_of(facts_.recorder.entries.begin(), facts_.recorder.entries.end(),
                    [](const Collective& entry) { return !entry.is_over && !entry.lingers; });
    if (has_pending && !facts_.python.empty() && !has_nccl(facts_.second)) return;
    if (!may_be_stopped(facts_.first) && !may_be_stopped(facts_.second)) return;
    NativeStacks stacks = native_stacks(pid_, facts_.second);
    facts_.native = std::move(stacks.threads);
    facts_.native_problem = std::move(stacks.problem);
    facts_.stopped_s = stacks.stopped_s;
    say();
  }

  RankTarget target_;
  pid_t pid_;  ///< of the process that does the work
  int out_;
  RankRecord record_;
  std::vector<ChildLook> child_looks_;
  std::map<std::string, Received> received_first_;  ///< of all connections here, at the first look
  std::map<std::string, Received> received_;        ///< at the second
  std::set<std::string> own_connections_;           ///< the rank's, by their inodes
  RankFacts facts_;
};

struct LookingProcess {
  pid_t pid = -1;
  UniqueFd out;
  std::string text;
  RankFacts facts;
};

LookingProcess start_looking(const RankTarget& target, std::chrono::milliseconds between) {
  LookingProcess looking;
  looking.facts.rank = target.rank;
  looking.facts.local_rank = target.local_rank;
  looking.facts.pid = target.pid;
  if (target.pid == 0) return looking;
  std::optional<Pipe> pipe = open_pipe();
  if (!pipe) {
    looking.facts.problem = "no pipe could be opened to look at it";
    return looking;
  }
  looking.out = std::move(pipe->read_end);
  const pid_t parent = ::getpid();
  looking.pid = ::fork();
  if (looking.pid != 0) return looking;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  std::signal(SIGCHLD, SIG_DFL);
  Looker(target, pipe->write_end.get()).look(between);
  ::_exit(0);
}

/// The last whole line of what was said.
void read_facts(LookingProcess& looking) {
  const std::size_t end = looking.text.rfind('\n');
  if (end == std::string::npos) return;
  const std::size_t begin = end == 0 ? std::string::npos : looking.text.rfind('\n', end - 1);
  const std::size_t first = begin == std::string::npos ? 0 : begin + 1;
  if (std::optional<RankFacts> facts = parse_rank_facts(looking.text.substr(first, end - first)))
    looking.facts = std::move(*facts);
}

/// False: it has said all.
bool hear(LookingProcess& looking) {
  std::array<char, 65536> buffer{};
  const ssize_t count = ::read(looking.out.get(), buffer.data(), buffer.size());
  if (count < 0) return errno == EINTR;
  looking.text.append(buffer.data(), static_cast<std::size_t>(count));
  return count > 0;
}

void hear_all(std::vector<LookingProcess>& all, std::chrono::steady_clock::time_point until) {
  for (;;) {
    std::vector<pollfd> waits;
    std::vector<LookingProcess*> owners;
    for (LookingProcess& looking : all) {
      if (!looking.out) continue;
      waits.push_back({looking.out.get(), POLLIN, 0});
      owners.push_back(&looking);
    }
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now())
            .count();
    if (waits.empty() || left <= 0) return;
    ::poll(waits.data(), waits.size(), static_cast<int>(left));
    for (std::size_t i = 0; i < waits.size(); ++i) {
      if (waits[i].revents != 0 && !hear(*owners[i])) owners[i]->out.reset();
    }
  }
}

/// All at the same time.
void look_at_some(std::span<const RankTarget> targets, const LookLimits& limits,
                  std::vector<RankFacts>& facts) {
  const auto until = std::chrono::steady_clock::now() + limits.whole;
  std::vector<LookingProcess> all;
  for (const RankTarget& target : targets) all.push_back(start_looking(target, limits.between));
  hear_all(all, until);
  for (LookingProcess& looking : all) {
    read_facts(looking);
    if (looking.out && looking.facts.problem.empty())
      looking.facts.problem = "not everything could be read of it in time";
    if (looking.pid > 0) {
      ::kill(looking.pid, SIGKILL);
      ::waitpid(looking.pid, nullptr, looking.out ? WNOHANG : 0);
    }
    facts.push_back(std::move(looking.facts));
  }
}

}  // namespace

void note_what_is_not_recorded(RankFacts& facts) {
  const bool is_newer =
      std::any_of(facts.second.threads.begin(), facts.second.threads.end(),
                  [](const ThreadLook& thread) { return thread.name.starts_with("pt_nccl2"); });
  if (!is_newer || !facts.recorder.problem.empty()) return;
  facts.recorder.is_there = facts.recorder_first.is_there = false;
  facts.recorder.problem =
      "what NCCL does is not seen: this torch records it where this ddprun does not look (nccl2); with "
      "TORCH_DIST_USE_NCCL2=0 it is";
}

std::vector<RankFacts> look_at_ranks(const std::vector<RankTarget>& targets, const LookLimits& limits) {
  // A process for each, and more for their stacks: a job may just fit into the limits of its machine.
  constexpr std::size_t kAtOnce = 32;
  std::vector<RankFacts> facts;
  for (std::size_t begin = 0; begin < targets.size(); begin += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, targets.size() - begin);
    look_at_some(std::span(targets).subspan(begin, count), limits, facts);
  }
  return facts;
}

}  // namespace ddprun::launcher::why
