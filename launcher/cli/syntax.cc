#include "launcher/cli/syntax.h"

#include "rendezvous/base/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace ddprun::launcher {
namespace {

constexpr std::size_t kMostSuggestions = 3;

std::string with_dashes(std::string_view name) { return fmt::format("--{}", name); }

std::string canonical(std::string_view typed) {
  std::string name(typed);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

/// argparse's "-5", "-.5" and "-1.5".
bool is_negative_number(std::string_view word) {
  word.remove_prefix(1);
  const std::size_t point = std::min(word.find('.'), word.size());
  const bool all_digits =
      std::all_of(word.begin(), word.end(), [](unsigned char c) { return std::isdigit(c) != 0 || c == '.'; });
  const std::string_view fraction = word.substr(std::min(point + 1, word.size()));
  if (!all_digits || fraction.find('.') != std::string_view::npos) return false;
  return point == word.size() ? !word.empty() : !fraction.empty();
}

/// "max-restarts-window": "max", "max-restarts", "max-restarts-window", "restarts", …
std::vector<std::string> parts_of(std::string_view name) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < name.size(); begin = std::min(name.find('-', begin), name.size()) + 1) {
    for (std::size_t end = begin; end < name.size();) {
      end = std::min(name.find('-', end + 1), name.size());
      parts.emplace_back(name.substr(begin, end - begin));
    }
  }
  return parts;
}

class Splitter {
 public:
  Splitter(std::span<const FlagSyntax> table, std::span<const std::string> args, std::string_view help)
      : table_(table), args_(args), see_help_(fmt::format("; {} lists all", help)) {}

  Result<ParsedArgs> run() {
    while (next_ < args_.size() && looks_like_flag(args_[next_])) {
      const std::string& word = args_[next_++];
      if (word == "--") {
        read_rest(true);
        return std::move(parsed_);
      }
      Result<void> taken = word[1] == '-' ? read_long(word) : read_short(word);
      if (!taken) return taken.error();
    }
    read_rest(false);
    return std::move(parsed_);
  }

 private:
  /// argparse's rule, in its order: what begins with '-' is a flag if it names or abbreviates one, with a
  /// value attached or not; else it is none if it is a lone dash, a number, or has a space in it.
  [[nodiscard]] bool looks_like_flag(std::string_view word) const {
    if (word.size() < 2 || word[0] != '-') return false;
    if (names_flag(word)) return true;
    return !is_negative_number(word) && word.find(' ') == std::string_view::npos;
  }

  [[nodiscard]] bool names_flag(std::string_view word) const {
    if (word == "--") return true;
    const std::string name = word[1] == '-' ? canonical(word.substr(2, word.find('=') - 2)) : std::string();
    return std::any_of(table_.begin(), table_.end(), [&](const FlagSyntax& flag) {
      return name.empty() ? flag.short_name == word[1] : flag.name.starts_with(name);
    });
  }

  Result<void> read_long(const std::string& word) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string typed = word.substr(0, equals);
    Result<std::size_t> flag = find(typed);
    if (!flag) return flag.error();
    std::optional<std::string> attached;
    if (equals < word.size()) attached = word.substr(equals + 1);
    return read_values(*flag, with_dashes(table_[*flag].name), attached);
  }

  /// "-r3", "-r=3", "-r 3", "-mr3": switches may be bundled, the last one takes what follows.
  Result<void> read_short(const std::string& word) {
    for (std::size_t at = 1; at < word.size(); ++at) {
      const auto found = std::find_if(table_.begin(), table_.end(),
                                      [&](const FlagSyntax& flag) { return flag.short_name == word[at]; });
      if (found == table_.end()) return unknown_short(word, word[at]);
      const auto flag = static_cast<std::size_t>(found - table_.begin());
      const bool is_last = at + 1 == word.size();
      if (value_count(*found) == 0 && !is_last && word[at + 1] != '=') {
        parsed_.flags.push_back({flag, {}});
        continue;
      }
      std::optional<std::string> attached;
      if (!is_last) attached = word.substr(at + (word[at + 1] == '=' ? 2 : 1));
      return read_values(flag, fmt::format("-{}", word[at]), attached);
    }
    return ok();
  }

  Result<void> read_values(std::size_t flag, const std::string& spelled,
                           const std::optional<std::string>& attached) {
    FlagUse use{flag, {}};
    const std::size_t wanted = value_count(table_[flag]);
    if (attached) {
      if (wanted == 0) return usage_error(fmt::format("{} takes no value, got \"{}\"", spelled, *attached));
      use.values.push_back(*attached);
    }
    while (use.values.size() < wanted) {
      if (next_ == args_.size()) {
        const std::string what = wanted == 1 ? "a value" : fmt::format("{} values", wanted);
        return usage_error(fmt::format("{} needs {}: {} {}", spelled, what, spelled, table_[flag].metavar));
      }
      if (looks_like_flag(args_[next_])) {
        return usage_error(fmt::format(
            "{} needs a value, got the flag {}; write {} {}, or {}=… for a value that begins with a dash",
            spelled, args_[next_], spelled, table_[flag].metavar, spelled));
      }
      use.values.push_back(args_[next_++]);
    }
    parsed_.flags.push_back(std::move(use));
    return ok();
  }

  /// The program and its words. argparse drops the first `--` only: one before the program, or else one
  /// behind it.
  void read_rest(bool has_dropped_dashes) {
    parsed_.ended_by_dashes = has_dropped_dashes;
    if (next_ == args_.size()) return;
    parsed_.rest.push_back(args_[next_++]);
    if (!has_dropped_dashes && next_ < args_.size() && args_[next_] == "--") ++next_;
    parsed_.rest.insert(parsed_.rest.end(), args_.begin() + static_cast<std::ptrdiff_t>(next_), args_.end());
  }

  /// The flag that `typed` names or abbreviates. Our own flags never make an abbreviation of torchrun's
  /// ambiguous.
  [[nodiscard]] Result<std::size_t> find(const std::string& typed) const {
    const std::string name = canonical(std::string_view(typed).substr(2));
    std::vector<std::size_t> torchrun_matches;
    std::vector<std::size_t> own_matches;
    for (std::size_t i = 0; i < table_.size(); ++i) {
      if (table_[i].name == name) return i;
      if (table_[i].name.substr(0, name.size()) != name || name.empty()) continue;
      (table_[i].is_torchrun ? torchrun_matches : own_matches).push_back(i);
    }
    const std::vector<std::size_t>& matches = torchrun_matches.empty() ? own_matches : torchrun_matches;
    if (matches.size() == 1) return matches.front();
    if (matches.empty()) return unknown_long(typed);
    std::vector<std::string> names;
    names.reserve(matches.size());
    for (const std::size_t match : matches) names.push_back(with_dashes(table_[match].name));
    return usage_error(fmt::format("flag {} is ambiguous: it could be {}", typed, fmt::join(names, ", ")));
  }

  [[nodiscard]] Error unknown_long(const std::string& typed) const {
    std::vector<std::string> names;
    names.reserve(table_.size());
    for (const FlagSyntax& flag : table_) names.push_back(with_dashes(flag.name));
    std::string nearest = did_you_mean(canonical(typed), names);
    if (nearest.empty()) nearest = suggest_by_part(canonical(typed).substr(2));
    return usage_error(fmt::format("unknown flag {}{}", typed, nearest.empty() ? see_help_ : nearest));
  }

  /// What is near some words of a flag: "restarts" is near --max-restarts.
  [[nodiscard]] std::string suggest_by_part(const std::string& typed) const {
    std::vector<std::string> parts;
    for (const FlagSyntax& flag : table_) {
      const std::vector<std::string> of_flag = parts_of(flag.name);
      parts.insert(parts.end(), of_flag.begin(), of_flag.end());
    }
    const std::optional<std::string> part = nearest_name(typed, parts);
    if (!part) return {};
    std::vector<std::string> names;
    for (const FlagSyntax& flag : table_) {
      const std::vector<std::string> of_flag = parts_of(flag.name);
      const bool has_part = std::find(of_flag.begin(), of_flag.end(), *part) != of_flag.end();
      if (has_part) names.push_back(fmt::format("\"{}\"", with_dashes(flag.name)));
    }
    if (names.size() > kMostSuggestions) return {};
    return fmt::format("; did you mean {}?", fmt::join(names, " or "));
  }

  [[nodiscard]] Error unknown_short(const std::string& word, char letter) const {
    // "-nproc-per-node": a long flag with one dash; or what mpirun and srun call it.
    const std::string typed = canonical(std::string_view(word).substr(1, word.find('=') - 1));
    const std::string name = typed == "n" || typed == "np" ? "nproc-per-node" : typed;
    const bool is_long =
        std::any_of(table_.begin(), table_.end(), [&](const FlagSyntax& f) { return f.name == name; });
    if (is_long) return usage_error(fmt::format("unknown flag {}; did you mean \"--{}\"?", word, name));
    return usage_error(word.size() == 2 ? fmt::format("unknown flag {}{}", word, see_help_)
                                        : fmt::format("unknown flag -{} in {}{}", letter, word, see_help_));
  }

  std::span<const FlagSyntax> table_;
  std::span<const std::string> args_;
  std::string see_help_;
  std::size_t next_ = 0;
  ParsedArgs parsed_;
};

}  // namespace

std::size_t value_count(const FlagSyntax& flag) {
  if (flag.metavar.empty()) return 0;
  return 1 + static_cast<std::size_t>(std::count(flag.metavar.begin(), flag.metavar.end(), ' '));
}

Result<ParsedArgs> split_args(std::span<const FlagSyntax> table, std::span<const std::string> args,
                              std::string_view help) {
  return Splitter(table, args, help).run();
}

}  // namespace ddprun::launcher
