#include "launcher/why/verdict/page.h"

#include "launcher/text/text.h"
#include "launcher/why/facts/facts_json.h"
#include "launcher/why/verdict/doing_words.h"
#include "rendezvous/base/format_duration.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::launcher::why {
namespace {

constexpr std::size_t kLongestSource = 100;

std::string duration_text(double seconds) { return format_duration(std::chrono::duration<double>(seconds)); }

std::string_view file_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

/// "train.py:88"; of a native frame its name.
std::string frame_place(const Frame& frame) {
  return frame.file.empty() ? printable(frame.function)
                            : fmt::format("{}:{}", printable(file_name(frame.file)), frame.line);
}

std::string frame_line(const Frame& frame) {
  if (frame.file.empty()) return fmt::format("    {}\n", printable(frame.function));
  const std::string text =
      fmt::format("    {:<20} in {:<16} {}", frame_place(frame), printable(frame.function),
                  shorten(printable(trim_blanks(frame.source)), kLongestSource));
  return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
}

/// "ddprun train.py" of "/usr/bin/ddprun train.py".
std::string short_command(const std::string& command) {
  const std::size_t end = std::min(command.find(' '), command.size());
  const std::size_t slash = command.rfind('/', end);
  return slash == std::string::npos || slash > end ? command : command.substr(slash + 1);
}

std::string head(const JobPicture& picture, const Verdict& verdict) {
  std::string job = fmt::format("job {} (pid {})", shorten(printable(short_command(picture.command)), 80),
                                picture.launcher);
  if (verdict.health == Health::kAwaits) return job + ": waiting\n";
  job += fmt::format(", {} rank{}, generation {}", picture.world_size, picture.world_size == 1 ? "" : "s",
                     picture.generation);
  const std::string since =
      verdict.waited_s < 0 ? std::string() : fmt::format(" for {}", duration_text(verdict.waited_s));
  switch (verdict.health) {
    case Health::kFine:
      return job + ": fine\n";
    case Health::kUnknown:
      if (verdict.waiting.empty()) return job + ": nothing could be read\n";
      return fmt::format("{}: ranks wait{}, and not all could be read\n", job, since);
    case Health::kSlow:
      return job + ": it gets on, but slowly\n";
    case Health::kLate:
      return fmt::format("{}: waiting{} for {}\n", job, since, rank_phrase(verdict.guilty));
    case Health::kStuck:
      return fmt::format("{}: stuck{}\n", job, since);
    case Health::kAwaits:
    case Health::kEnding:
      return fmt::format("{}: {}\n", job, picture.phase);
  }
  return job + "\n";
}

const RankVerdict* find_rank(const Verdict& verdict, int rank) {
  const auto found =
      std::find_if(verdict.ranks.begin(), verdict.ranks.end(), [&](const auto& r) { return r.rank == rank; });
  return found == verdict.ranks.end() ? nullptr : &*found;
}

bool is_guilty(const Verdict& verdict, int rank) {
  return std::find(verdict.guilty.begin(), verdict.guilty.end(), rank) != verdict.guilty.end();
}

/// Of a rank that has ended no host is known.
bool is_on_several_hosts(const Verdict& verdict) {
  std::set<std::string> hosts;
  for (const RankVerdict& rank : verdict.ranks) {
    if (!rank.host.empty()) hosts.insert(rank.host);
  }
  return hosts.size() > 1;
}

/// " has done 120 steps and evaluates"; empty: it tells nothing of that.
std::string progress_words(const JobPicture& picture, int rank) {
  const auto facts = std::find_if(picture.ranks.begin(), picture.ranks.end(),
                                  [&](const RankFacts& one) { return one.rank == rank; });
  if (facts == picture.ranks.end()) return {};
  const RankProgress& progress = facts->progress;
  std::string text;
  if (progress.step >= 0)
    text = fmt::format(" has done {} step{}", progress.step, progress.step == 1 ? "" : "s");
  if (!progress.phase.empty())
    text += fmt::format("{} {}", text.empty() ? "" : " and", printable(progress.phase));
  return text;
}

std::string guilty_part(const JobPicture& picture, const Verdict& verdict) {
  std::string text;
  for (const int guilty : verdict.guilty) {
    const RankVerdict* const rank = find_rank(verdict, guilty);
    if (rank == nullptr) continue;
    const std::string who = verdict.guilty.size() == 1 ? std::string("it") : fmt::format("rank {}", guilty);
    if (is_on_several_hosts(verdict) && !rank->host.empty())
      text += fmt::format("    {} is on host {} (pid {})\n", who, printable(rank->host), rank->pid);
    if (!rank->activity.words.empty() && verdict.reason.find(rank->activity.words) == std::string::npos)
      text += fmt::format("    {} {}\n", who, rank->activity.words);
    else if (verdict.guilty.size() > 1 && !rank->activity.frames.empty())
      text += fmt::format("    rank {}:\n", guilty);
    if (const std::string words = progress_words(picture, guilty); !words.empty())
      text += fmt::format("    {}{}\n", who, words);
    for (const Frame& frame : rank->activity.frames) text += frame_line(frame);
  }
  return text;
}

/// How those who are stopped go on, by host.
std::string advice(const Verdict& verdict) {
  std::map<std::string, std::vector<int>> stopped;
  for (const RankVerdict& rank : verdict.ranks) {
    if (is_guilty(verdict, rank.rank) && rank.activity.doing == Doing::kStopped)
      stopped[is_on_several_hosts(verdict) ? rank.host : std::string()].push_back(rank.pid);
  }
  std::string text;
  for (const auto& [host, pids] : stopped)
    text += fmt::format("    kill -CONT {}{} lets {} go on\n", fmt::join(pids, " "),
                        host.empty() ? std::string() : " on host " + printable(host),
                        pids.size() == 1 ? "it" : "them");
  return text;
}

/// Ranks that say the same are told in one line.
std::string others_part(const Verdict& verdict) {
  std::vector<std::pair<std::string, std::vector<int>>> lines;
  for (const RankVerdict& rank : verdict.ranks) {
    if (is_guilty(verdict, rank.rank) && verdict.health != Health::kSlow) continue;
    std::string words = rank.activity.words;
    if (!rank.activity.frames.empty())
      words += fmt::format(" at {}", frame_place(rank.activity.frames.front()));
    const auto same =
        std::find_if(lines.begin(), lines.end(), [&](const auto& line) { return line.first == words; });
    if (same == lines.end()) {
      lines.push_back({std::move(words), {rank.rank}});
    } else {
      same->second.push_back(rank.rank);
    }
  }
  std::string text;
  for (const auto& [words, ranks] : lines)
    text += fmt::format("  {} {}\n", rank_phrase(ranks), ranks.size() == 1 ? words : plural(words));
  return text;
}

std::string_view remark(const Verdict& verdict) {
  const bool is_wrong = verdict.health == Health::kStuck || verdict.health == Health::kLate;
  if (is_wrong && verdict.confidence == Confidence::kGuess)
    return "  this is a guess: what was seen goes with more than one explanation\n";
  if (verdict.health == Health::kLate)
    return "  it still does something: work that takes long, or a loop without an end; asked again, it shows "
           "whether it "
           "gets on\n";
  return "";
}

}  // namespace

std::string render(const JobPicture& picture, const Verdict& verdict) {
  std::string text = head(picture, verdict);
  if (!verdict.reason.empty()) text += fmt::format("  {}\n", verdict.reason);
  if (verdict.health != Health::kSlow) text += advice(verdict) + guilty_part(picture, verdict);
  text += remark(verdict);
  text += others_part(verdict);
  for (const std::string& note : verdict.notes) text += fmt::format("  ({})\n", printable(note));
  return text;
}

std::string render_json(const JobPicture& picture, const Verdict& verdict) {
  using Ordered = nlohmann::ordered_json;
  Ordered ranks = Ordered::array();
  for (const RankVerdict& rank : verdict.ranks) {
    Ordered frames = Ordered::array();
    for (const Frame& frame : rank.activity.frames)
      frames.push_back({{"function", frame.function},
                        {"file", frame.file},
                        {"line", frame.line},
                        {"source", frame.source}});
    ranks.push_back({{"rank", rank.rank},
                     {"host", rank.host},
                     {"doing", to_string(rank.activity.doing)},
                     {"words", rank.activity.words},
                     {"waits_in", rank.waits_in},
                     {"frames", std::move(frames)}});
  }
  const Ordered json{{"job", picture.tag},
                     {"launcher_pid", picture.launcher},
                     {"command", picture.command},
                     {"generation", picture.generation},
                     {"world_size", picture.world_size},
                     {"health", to_string(verdict.health)},
                     {"confidence", to_string(verdict.confidence)},
                     {"waited_s", verdict.waited_s < 0 ? Ordered() : Ordered(verdict.waited_s)},
                     {"guilty", verdict.guilty},
                     {"waiting", verdict.waiting},
                     {"reason", verdict.reason},
                     {"page", render(picture, verdict)},
                     {"ranks", std::move(ranks)},
                     {"notes", verdict.notes},
                     {"facts", Ordered(to_json(picture))}};
  return json.dump(2, ' ', false, Ordered::error_handler_t::replace) + "\n";
}

}  // namespace ddprun::launcher::why
