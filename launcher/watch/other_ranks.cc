#include "launcher/watch/other_ranks.h"

#include "launcher/text/text.h"
#include "launcher/watch/sample_json.h"
#include "rendezvous/base/format_duration.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace ddprun::launcher::watch {

using std::chrono::milliseconds;

void OtherRanks::take(const why::OtherNodes& answer, pid_t launcher, Time now, milliseconds waited) {
  unseen_.clear();
  if (!answer.has_heard()) {
    unseen_.push_back(why::silent_launcher_words(launcher, waited));
    std::vector<std::uint64_t> known;
    for (const auto& [number, told] : told_) known.push_back(number);
    for (const std::uint64_t number : known) age(number, now, {});
    return;
  }
  if (!answer.problem().empty()) unseen_.push_back(printable(answer.problem()));
  if (answer.are_all_named())
    std::erase_if(told_, [&](const auto& entry) { return !answer.nodes().contains(entry.first); });
  for (const auto& [number, node] : answer.nodes()) take(number, node, now, waited);
}

void OtherRanks::take(std::uint64_t number, const why::OtherNodes::Node& node, Time now,
                      milliseconds waited) {
  const std::string name = printable(node.name);
  // Who had to ask twice may have been answered twice.
  const std::vector<std::string_view> lines = last_lines(node.text, 1);
  std::optional<JobSample> sample =
      node.is_over && !lines.empty() ? parse_sample(lines.front()) : std::nullopt;
  if (node.is_older) {
    told_.erase(number);
    unseen_.push_back(fmt::format("{} is of an older ddprun, which does not tell others of its ranks", name));
    return;
  }
  if (!sample)
    return age(
        number, now,
        node.is_over ? fmt::format("{} has told of no rank", name) : why::silent_node_words(name, waited));
  if (sample->ranks.empty())
    unseen_.push_back(fmt::format("{} has no rank at the moment: it is {}", name, sample->state.phase));
  if (sample->left_out > 0)
    unseen_.push_back(fmt::format("{} more ranks of {} did not fit into its answer", sample->left_out, name));
  Told& told = told_[number];
  if (told.at != Time{}) told.samples.before = std::move(told.samples.now);
  told.samples.now = std::move(*sample);
  told.at = now;
}

void OtherRanks::age(std::uint64_t number, Time now, const std::string& silence) {
  constexpr auto kOld = std::chrono::seconds(10);
  std::string sentence = silence;
  const auto found = told_.find(number);
  if (found != told_.end() && now - found->second.at > kOld) {
    told_.erase(found);
  } else if (found != told_.end()) {
    const std::chrono::duration<double> age = now - found->second.at;
    sentence = fmt::format("{}{}its ranks are as they were {} ago",
                           silence.empty() ? "of " + found->second.samples.now.host : silence,
                           silence.empty() ? ": " : "; ", format_duration(age));
  }
  if (!sentence.empty()) unseen_.push_back(std::move(sentence));
}

std::vector<NodeSamples> OtherRanks::samples() const {
  std::vector<NodeSamples> all;
  for (const auto& [number, told] : told_) {
    if (!told.samples.now.ranks.empty()) all.push_back(told.samples);
  }
  return all;
}

}  // namespace ddprun::launcher::watch
