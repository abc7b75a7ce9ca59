#include "launcher/why/desk/other_nodes.h"

#include "launcher/process/pidfd.h"
#include "launcher/text/text.h"
#include "launcher/why/desk/desk.h"
#include "launcher/why/facts/facts_json.h"
#include "launcher/why/look/settle.h"
#include "rendezvous/base/format_duration.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

namespace ddprun::launcher::why {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

void OtherNodes::take(LookAnswer part) {
  has_heard_ = true;
  if (part.from == 0) {
    are_all_named_ = true;
    problem_ = part.node;
    return;
  }
  Node& node = nodes_[part.from];
  node.name = std::move(part.node);
  node.text += part.text;
  node.is_over = node.is_over || part.is_last;
  node.is_older = node.is_older || part.is_older;
}

bool OtherNodes::is_over() const {
  return are_all_named_ &&
         std::all_of(nodes_.begin(), nodes_.end(), [](const auto& node) { return node.second.is_over; });
}

void OtherNodes::add_to(JobPicture& picture, milliseconds waited) const {
  picture.asks_others = true;
  if (!has_heard_) picture.unseen.push_back(silent_launcher_words(picture.launcher, waited));
  if (!problem_.empty()) picture.unseen.push_back(printable(problem_));
  for (const auto& [number, node] : nodes_) {
    std::size_t count = 0;
    for (const std::string_view line : split_lines(node.text)) {
      std::optional<RankFacts> facts = parse_rank_facts(line);
      if (!facts) continue;
      const bool is_known = std::any_of(picture.ranks.begin(), picture.ranks.end(),
                                        [&](const RankFacts& other) { return other.rank == facts->rank; });
      if (is_known || facts->rank < 0 || facts->rank >= picture.world_size) continue;
      shift_times(*facts, picture.taken_ns);
      picture.ranks.push_back(std::move(*facts));
      ++count;
    }
    if (node.text == kBusyAnswer)
      picture.unseen.push_back(
          fmt::format("{} was being looked at for others: ask again", printable(node.name)));
    else if (!node.is_over) {
      picture.unseen.push_back(silent_node_words(node.name, waited));
      picture.silent_nodes.push_back(node.name);
    } else if (count == 0)
      picture.unseen.push_back(fmt::format("{} has told of no rank that runs", printable(node.name)));
  }
  std::stable_sort(picture.ranks.begin(), picture.ranks.end(),
                   [](const RankFacts& a, const RankFacts& b) { return a.rank < b.rank; });
}

std::string silent_launcher_words(pid_t launcher, milliseconds waited) {
  return fmt::format(
      "the launcher here (pid {}) has passed on no answer within {}: it or its coordinator stands still, or "
      "it is of an "
      "older ddprun",
      launcher, format_duration(waited));
}

std::string silent_node_words(const std::string& name, milliseconds waited) {
  return fmt::format("{} has not answered within {}", printable(name), format_duration(waited));
}

Question::Question(pid_t launcher, LookKind kind) : launcher_(launcher), kind_(kind) {
  std::optional<Pipe> pipe = open_pipe();
  if (!pipe) return;
  pipe_ = std::move(*pipe);
  ask();
}

void Question::ask() const {
  const UniqueFd pidfd = open_pidfd(launcher_);
  if (!pidfd || pipe_.write_end.get() > 0xffff) return;
  siginfo_t info{};
  info.si_signo = SIGURG;
  info.si_code = SI_QUEUE;
  info.si_pid = ::getpid();
  info.si_uid = ::getuid();
  info.si_value.sival_int = mark_of(kind_) << 16 | pipe_.write_end.get();
  signal_pidfd(pidfd, SIGURG, &info);
}

OtherNodes Question::answer(steady_clock::time_point until) {
  OtherNodes nodes;
  if (!pipe_.read_end) return nodes;
  // Signals of one number that come at the same moment are one: another program may have got there first.
  // Not all at the same moment again.
  const milliseconds pause =
      kind_ == LookKind::kWhy ? milliseconds(1000) : milliseconds(100 + ::getpid() % 16 * 20);
  auto ask_again_at = steady_clock::now() + pause;
  // Whoever is put off waits for the end of another question and then for its own.
  const auto at_most = steady_clock::now() + 3 * kWhyAnswerTime;
  bool is_put_off = false;
  std::string text;
  while (!nodes.is_over()) {
    const auto now = steady_clock::now();
    if (!nodes.has_heard() && now >= ask_again_at) {
      ask();
      ask_again_at = now + pause;
    }
    const auto next = nodes.has_heard() ? until : std::min(until, ask_again_at);
    pollfd wait{pipe_.read_end.get(), POLLIN, 0};
    const auto left =
        std::max<std::int64_t>(0, std::chrono::duration_cast<milliseconds>(next - now).count() + 1);
    if (::poll(&wait, 1, static_cast<int>(left)) <= 0) {
      if (now >= until) break;
      continue;
    }
    std::array<char, 65536> buffer{};
    const ssize_t count = ::read(pipe_.read_end.get(), buffer.data(), buffer.size());
    if (count <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(count));
    for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
      const std::string_view line = std::string_view(text).substr(0, end + 1);
      is_put_off = is_put_off || line == kAskLater;
      if (is_put_off && !nodes.has_heard()) until = std::min(steady_clock::now() + kWhyAnswerTime, at_most);
      if (std::optional<LookAnswer> part = parse_look_answer(line.substr(0, end)))
        nodes.take(std::move(*part));
      text.erase(0, end + 1);
    }
  }
  return nodes;
}

void hear_others(Question& question, steady_clock::time_point until, JobPicture& picture) {
  const OtherNodes others = question.answer(until);
  see_launcher_connections(picture);
  others.add_to(picture, kWhyAnswerTime);
}

}  // namespace ddprun::launcher::why
