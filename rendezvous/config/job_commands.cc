#include "rendezvous/config/job_commands.h"

#include "rendezvous/base/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

namespace ddprun::config {
namespace {

constexpr std::size_t kNarrowestHelp = 60;
constexpr std::size_t kFlagHelpColumn = 25;

constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();

constexpr JobCommandFlag kSet{"set", '\0', "/KEY=VALUE",
                              "changes one value of the job file; may be repeated"};
constexpr JobCommandFlag kCheckpoint{
    "checkpoint", '\0', "FILE",
    "a checkpoint, or a .pt file with a state dict [the job's newest checkpoint]"};
constexpr JobCommandFlag kWeightsOf{
    "weights-of", '\0', "NAME",
    "average or model: which weights of the checkpoint [the average, where its job kept one]"};
constexpr JobCommandFlag kHelp{"help", 'h', "", "shows this"};

constexpr std::array kValidateFlags{
    kSet, JobCommandFlag{"ranks", '\0', "N", "counts steps for a world of so many ranks [1]"}, kHelp};
constexpr std::array kInitFlags{kHelp};
constexpr std::array kListFlags{
    JobCommandFlag{"plugin", '\0', "FILE", "lists what this library brings as well; may be repeated"}, kHelp};
constexpr std::array kSummaryFlags{kSet, kHelp};
constexpr std::array kEvalFlags{kSet, kCheckpoint, kWeightsOf,
                                JobCommandFlag{"json", '\0', "", "prints one JSON object"}, kHelp};
constexpr std::array kPredictFlags{
    kSet,
    kCheckpoint,
    kWeightsOf,
    JobCommandFlag{"json", '\0', "", "prints a JSON object for each input"},
    JobCommandFlag{"top", '\0', "N", "so many classes of each input [1]"},
    JobCommandFlag{"tokens", '\0', "N", "of text: so many tokens [200]"},
    JobCommandFlag{"temperature", '\0', "X", "of text: below 1 surer, above 1 wilder, 0 the likeliest [0.8]"},
    JobCommandFlag{"seed", '\0', "N", "of text: what is drawn [0]"},
    kHelp};
constexpr std::array kExportFlags{
    kSet,
    kCheckpoint,
    kWeightsOf,
    JobCommandFlag{"output", 'o', "FILE", "where to"},
    JobCommandFlag{
        "format", '\0', "NAME",
        "pt, safetensors or torchscript [by FILE's ending: .pt, .pth, .safetensors, .torchscript]"},
    JobCommandFlag{"force", '\0', "", "replaces a file that is there"},
    kHelp};
constexpr std::array kSmokeFlags{kSet, JobCommandFlag{"verbose", 'v', "", "shows all output of what fails"},
                                 kHelp};

constexpr std::array kJobCommands{
    JobCommand{
        "validate", "JOB.json", 1, 1, "check a job file, its data, plug-ins and weights",
        "Checks all that a start checks, without training: the job file, plug-ins, that data can be read "
        "and what it looks like, that model, weights and task fit it, the schedule, and what the job "
        "would go on from. Ends with 78 and all that was found where something is wrong.",
        kValidateFlags},
    JobCommand{
        "init", "[NAME]", 0, 1, "write a job file to start from, with comments",
        "Writes NAME.json [job.json], a job file that trains at once, with a comment at each key. Never "
        "replaces a file.",
        kInitFlags},
    JobCommand{
        "list", "[KIND]", 0, 1, "what a job file can name: models, data, ...",
        "Prints what a job file can name, with a sentence each. KIND is models, data, tasks, transforms, "
        "optimizers or schedules; without it all are listed.",
        kListFlags},
    JobCommand{"summary", "JOB.json", 1, 1, "the layers of a job's model, with their costs",
               "Prints the layers of the model with shapes, parameters and multiply-adds. The job's data is "
               "opened, because the model is made for it.",
               kSummaryFlags},
    JobCommand{
        "eval", "JOB.json", 1, 1, "the metrics of a checkpoint",
        "Prints the job's metrics on its held-out data for a checkpoint: of the average of the weights "
        "where the job keeps one, as in training.",
        kEvalFlags},
    JobCommand{
        "predict", "JOB.json INPUT...", 2, kAnyNumber, "what a checkpoint says of new inputs",
        "Prints class and probability of each input, or the numbers of a job without classes. An INPUT is "
        "a JPEG or PNG file for jobs of images, a CSV file or an array of numpy for jobs of these (a line "
        "for each row), and for text the beginning of one, which is continued. Ends with 78 where an "
        "input cannot be read; the others are told.",
        kPredictFlags},
    JobCommand{
        "export", "JOB.json -o FILE", 1, 1, "weights as .pt, safetensors or TorchScript",
        "Writes the weights of a checkpoint, of their average where the job keeps one: as a state dict "
        "for torch.load, as safetensors, or, with the model's computation, as TorchScript for "
        "torch.jit.load.",
        kExportFlags},
    JobCommand{
        "smoke", "JOB.json", 1, 1, "try all that a job does, small, in seconds",
        "Runs what the job does on two CPU ranks, small: training over gloo and shared memory (and on a "
        "GPU, where there is one), evaluation, checkpoints, a resume that has to end with the same "
        "bytes, a killed rank, export. Data that is not there is made up. Nothing is left behind. Ends "
        "with 0, or with the exit code of what failed first.",
        kSmokeFlags}};

std::string spelled(const JobCommandFlag& flag) {
  std::string text = flag.short_name == '\0' ? "" : fmt::format("-{}, ", flag.short_name);
  text += fmt::format("--{}", flag.name);
  return flag.metavar.empty() ? text : fmt::format("{} {}", text, flag.metavar);
}

/// The words of `text`, in lines of at most `width`; all begin at `column`, where the first one stands already.
std::string wrapped(std::string_view text, std::size_t column, std::size_t width) {
  std::string lines;
  std::size_t at = column;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    if (at != column) {
      const bool fits = at + 1 + word.size() <= width;
      lines += fits ? " " : fmt::format("\n{:{}}", "", column);
      at = fits ? at + 1 : column;
    }
    lines += word;
    at += word.size();
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
  return lines + '\n';
}

class CommandLineParser {
 public:
  explicit CommandLineParser(const JobCommand& command) : command_(command) {}

  Result<JobCommandLine> run(std::span<const std::string> args) {
    args_ = args;
    while (next_ < args_.size()) {
      const std::string& word = args_[next_++];
      if (word == "--") {
        line_.words.insert(line_.words.end(), args_.begin() + static_cast<std::ptrdiff_t>(next_),
                           args_.end());
        break;
      }
      if (word.size() < 2 || word[0] != '-') {
        line_.words.push_back(word);
      } else if (Result<void> taken = take_flag(word); !taken) {
        return taken.error();
      }
    }
    line_.wants_help = line_.has("help");
    if (!line_.wants_help) {
      if (Result<void> enough = check_words(); !enough) return enough.error();
    }
    return std::move(line_);
  }

 private:
  [[nodiscard]] Error refuse(const std::string& why) const {
    return {ErrorCode::kUsage, fmt::format("{}: {}", command_.name, why)};
  }

  [[nodiscard]] std::string how() const {
    return fmt::format("write ddprun {} {}", command_.name, command_.words);
  }

  Result<void> take_flag(const std::string& word) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string typed = word.substr(0, equals);
    std::string name = typed;
    std::replace(name.begin(), name.end(), '_', '-');
    const auto found = std::find_if(command_.flags.begin(), command_.flags.end(), [&](const auto& flag) {
      return name == fmt::format("--{}", flag.name) ||
             (flag.short_name != '\0' && name == fmt::format("-{}", flag.short_name));
    });
    if (found == command_.flags.end()) return unknown(typed);
    std::optional<std::string> value;
    if (equals < word.size()) value = word.substr(equals + 1);
    if (found->metavar.empty()) {
      if (value) return refuse(fmt::format("{} takes no value, got \"{}\"", typed, *value));
      value = "";
    } else if (!value) {
      if (next_ == args_.size())
        return refuse(fmt::format("{0} needs a value: {0} {1}", typed, found->metavar));
      value = args_[next_++];
    }
    line_.flags[std::string(found->name)].push_back(*value);
    return ok();
  }

  [[nodiscard]] Error unknown(const std::string& typed) const {
    std::vector<std::string> names;
    for (const JobCommandFlag& flag : command_.flags) names.push_back(fmt::format("--{}", flag.name));
    const std::string near = did_you_mean(typed, names);
    if (!near.empty()) return refuse(fmt::format("unknown flag {}{}", typed, near));
    return refuse(fmt::format("unknown flag {}; ddprun {} --help lists all{}", typed, command_.name,
                              command_.most_words > 1 ? ", and behind -- come words" : ""));
  }

  [[nodiscard]] Result<void> check_words() const {
    const std::vector<std::string>& words = line_.words;
    if (words.size() > command_.most_words)
      return refuse(fmt::format("unexpected \"{}\"; {}", words[command_.most_words], how()));
    if (words.size() < command_.fewest_words) {
      return refuse(
          fmt::format("{} is missing; {}", words.empty() ? "the job file" : "what to look at", how()));
    }
    // An input may be an empty text.
    if (!words.empty() && words.front().empty())
      return refuse(fmt::format("a name is empty; is a shell variable unset? {}", how()));
    return ok();
  }

  const JobCommand& command_;
  std::span<const std::string> args_;
  std::size_t next_ = 0;
  JobCommandLine line_;
};

}  // namespace

std::span<const JobCommand> job_commands() { return kJobCommands; }

const JobCommand* find_job_command(std::string_view name) {
  const auto found = std::find_if(kJobCommands.begin(), kJobCommands.end(),
                                  [&](const JobCommand& command) { return command.name == name; });
  return found == kJobCommands.end() ? nullptr : &*found;
}

std::string command_help(const JobCommand& command, std::size_t columns) {
  const std::size_t width = std::max(columns, kNarrowestHelp);
  std::string text = fmt::format("usage: ddprun {} {} [flags]\n\n", command.name, command.words);
  text += wrapped(command.text, 0, width) + '\n';
  for (const JobCommandFlag& flag : command.flags) {
    const std::string left = "  " + spelled(flag);
    const bool fits = left.size() + 2 <= kFlagHelpColumn;
    text += fits ? fmt::format("{:<{}}", left, kFlagHelpColumn)
                 : fmt::format("{}\n{:{}}", left, "", kFlagHelpColumn);
    text += wrapped(flag.help, kFlagHelpColumn, width);
  }
  return text;
}

std::string JobCommandLine::value(std::string_view flag, std::string_view fallback) const {
  const auto found = flags.find(flag);
  return found == flags.end() ? std::string(fallback) : found->second.back();
}

std::vector<std::string> JobCommandLine::values(std::string_view flag) const {
  const auto found = flags.find(flag);
  return found == flags.end() ? std::vector<std::string>() : found->second;
}

Result<JobCommandLine> parse_command_line(const JobCommand& command, std::span<const std::string> args) {
  return CommandLineParser(command).run(args);
}

}  // namespace ddprun::config
