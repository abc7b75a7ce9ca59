#include "rendezvous/base/exit_codes.h"
#include "rendezvous/config/job_config.h"
#include "worker/commands/commands.h"
#include "worker/commands/opened_job.h"
#include "worker/commands/output.h"
#include "worker/commands/smoke_child.h"
#include "worker/commands/smoke_data.h"
#include "worker/commands/smoke_size.h"
#include "worker/commands/smoke_surroundings.h"
#include "worker/commands/smoke_traces.h"
#include "worker/commands/temporary_folder.h"
#include "worker/training/resume/resume.h"
#include "worker/training/step/graph_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::commands {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::chrono::seconds kLimit{120};                              ///< of each program
constexpr std::int64_t kStepsOfGraph = training::kStepsBeforeGraph + 3;  ///< of which some are replayed

/// What a program died of, in one line.
std::string why(const Ended& ended) {
  if (ended.is_late) return fmt::format("no end after {} s", kLimit.count());
  const std::string words = last_words(ended.err);
  return words.empty() ? fmt::format("exit code {}, without a word", ended.exit_code)
                       : fmt::format("{} (exit code {})", words, ended.exit_code);
}

/// One run of the whole: makes the job small, and tries it.
class Smoke {
 public:
  Smoke(const config::JobConfig& job, const config::JobCommandLine& line)
      : path_(job.path),
        values_(job.values),
        own_settings_(line.values("set")),
        is_verbose_(line.has("verbose")),
        ranks_(values_.value("strategy", "ddp") == "ddp" ? 2 : 1),
        small_(make_small(values_, ranks_)),
        self_directory_(fs::read_symlink("/proc/self/exe").parent_path()),
        segments_before_(orphaned_segments()),
        environment_(clean_environment(folder_.path())),
        children_(kLimit) {}

  int run() {
    if (make_data() && check_job()) {
      const bool has_trained = check_training("gloo");
      if (has_trained) {
        check_eval();
        check_resume();
        for (const char* format : {"pt", "safetensors", "torchscript"}) check_export(format);
      }
      check_kill();
      if (ranks_ > 1) check_training("shm");
      if (has_gpu()) check_training("cuda");
    }
    check_clean();
    print(failed_ == 0 ? fmt::format("{}: all is well ({} checks)\n", path_, checks_)
                       : fmt::format("{}: {} of {} checks failed\n", path_, failed_, checks_));
    return exit_code_;
  }

 private:
  [[nodiscard]] int killed_rank() const { return ranks_ - 1; }

  // What is said.

  bool tell(bool is_ok, std::string_view check, const std::string& text, double seconds) {
    ++checks_;
    if (!is_ok) ++failed_;
    print(fmt::format("{:<4}  {:<8}  {}{}\n", is_ok ? "ok" : "FAIL", check, text,
                      seconds > 0 ? fmt::format("  ({:.1f} s)", seconds) : ""));
    return is_ok;
  }

  bool tell_failure(std::string_view check, const std::string& text, const Ended& ended) {
    const bool says_code = ended.exit_code != 0 && !ended.is_late;
    if (exit_code_ == 0) exit_code_ = says_code ? ended.exit_code : exit_code::kInternal;
    tell(false, check, text, ended.seconds);
    if (is_verbose_) print(ended.out + ended.err);
    return false;
  }

  // What is run.

  /// The job's own settings, and those that make it small; `more` come last.
  [[nodiscard]] std::vector<std::string> settings(const std::vector<std::string>& more) const {
    std::vector<std::string> words;
    for (const auto* list : {&own_settings_, &small_.settings, &more})
      for (const std::string& setting : *list) words.insert(words.end(), {"--set", setting});
    return words;
  }

  [[nodiscard]] std::vector<std::string> on(const std::string& backend, const std::string& output) const {
    const bool is_cuda = backend == "cuda";
    std::vector<std::string> words{fmt::format("/backend=\"{}\"", is_cuda ? "auto" : backend),
                                   fmt::format("/device=\"{}\"", is_cuda ? "cuda" : "cpu"),
                                   fmt::format("/output_dir={}", json(output).dump())};
    if (!values_.at("train").value("cuda_graph", false)) return words;
    if (is_cuda) {
      words.insert(words.end(), {fmt::format("/train/epochs={}", kStepsOfGraph),
                                 fmt::format("/train/max_steps={}", kStepsOfGraph)});
    } else {
      words.emplace_back("/train/cuda_graph=false");
    }
    return words;
  }

  Ended train(const std::string& backend, const std::string& output, std::vector<std::string> more = {},
              const std::optional<Watch>& watch = std::nullopt) {
    const std::vector<std::string> where = on(backend, output);
    more.insert(more.end(), where.begin(), where.end());
    std::vector<std::string> argv{self_directory_ + "/ddprun",
                                  "--standalone",
                                  "--nproc-per-node",
                                  backend == "cuda" ? "1" : std::to_string(ranks_),
                                  "--events",
                                  events_path(output)};
    const std::vector<std::string> words = settings(more);
    argv.insert(argv.end(), words.begin(), words.end());
    argv.push_back(path_);
    return children_.run(argv, environment_, watch);
  }

  Ended command(const std::vector<std::string>& words, const std::string& output) {
    std::vector<std::string> argv{self_directory_ + "/ddprun"};
    argv.insert(argv.end(), words.begin(), words.end());
    argv.push_back(path_);
    const std::vector<std::string> set = settings(on("gloo", output));
    argv.insert(argv.end(), set.begin(), set.end());
    return children_.run(argv, environment_);
  }

  [[nodiscard]] std::string output_of(const std::string& backend) const {
    return folder_ / ("run-" + backend);
  }
  [[nodiscard]] static std::string events_path(const std::string& output) { return output + ".events"; }

  // What it reads.

  bool make_data() {
    for (const auto& [name, entry] : values_.at("evaluate").items())
      if (!find_or_make_up("/evaluate/" + name, entry, folder_ / ("data-" + name))) return false;
    return find_or_make_up("/data", values_.at("data"), folder_ / "data");
  }

  /// What the object `pointer` of the job file reads; where that is not there, something of its form.
  bool find_or_make_up(const std::string& pointer, const json& data, const std::string& made) {
    const std::string type = data.at("type");
    for (std::string& setting : offline_settings(pointer, data))
      small_.settings.push_back(std::move(setting));
    if (is_data_there(data)) return true;
    const std::string missing = data.at("path");
    const auto place = make_up_data(data, values_.at("model").at("type"), small_.samples, made);
    if (!place) {
      Ended none{.exit_code = exit_code::kConfig};
      return tell_failure("data", fmt::format("{} is not there, and {} cannot be made up", missing, type),
                          none);
    }
    small_.settings.push_back(fmt::format("{}/path={}", pointer, json(*place).dump()));
    return tell(true, "data",
                fmt::format("{} is not there: {} samples of {} are made up", missing,
                            small_.samples.train + small_.samples.held_out, type),
                0);
  }

  // What is checked.

  bool check_job() {
    const Ended ended = command({"validate", "--ranks", std::to_string(ranks_)}, output_of("gloo"));
    if (ended.exit_code != 0) return tell_failure("validate", why(ended), ended);
    const std::string model = values_.at("model").at("type");
    const std::string data = values_.at("data").at("type");
    return tell(true, "validate", fmt::format("{} on {}", model, data), ended.seconds);
  }

  bool check_training(const std::string& backend) {
    const std::string output = output_of(backend);
    const Ended ended = train(backend, output);
    const std::string world =
        backend == "cuda" ? "cuda, 1 rank" : fmt::format("{}, {}", backend, counted(ranks_, "ranks"));
    if (ended.exit_code != 0) return tell_failure("train", fmt::format("{}: {}", world, why(ended)), ended);
    const std::vector<std::int64_t> steps = steps_of_checkpoints(output);
    if (steps.empty()) return tell_failure("train", world + ": no checkpoint was written", ended);
    return tell(true, "train",
                fmt::format("{}, {} steps with evaluations and checkpoints{}", world, steps.back(),
                            losses_in_words(output)),
                ended.seconds);
  }

  void check_eval() {
    const Ended ended = command({"eval"}, output_of("gloo"));
    const std::string line = ended.out.substr(0, ended.out.find('\n'));
    if (ended.exit_code != 0) {
      tell_failure("eval", why(ended), ended);
    } else {
      tell(true, "eval", line, ended.seconds);
    }
  }

  /// The run that has ended goes on from a checkpoint in its middle, in the same folder, and has to end with the
  /// same file.
  void check_resume() {
    const std::string output = output_of("gloo");
    const std::vector<std::int64_t> steps = steps_of_checkpoints(output);
    if (steps.size() < 2) {
      tell_failure("resume", "there is one checkpoint only, and none to go on from", {});
      return;
    }
    const std::int64_t last = steps.back();
    const std::int64_t from = steps[(steps.size() - 1) / 2];
    const std::string reference = folder_ / "reference.pt";
    const std::string scratch = folder_ / "plain.pt";
    fs::rename(checkpoint_path(output, last), reference);
    for (const auto& entry : training::checkpoints_in(output + "/checkpoints"))
      if (entry.step > from) fs::remove(entry.path);
    const Ended ended = train("gloo", output);
    const std::string what = fmt::format("from step {} to {}", from, last);
    if (ended.exit_code != 0) {
      tell_failure("resume", fmt::format("{}: {}", what, why(ended)), ended);
    } else if (content_without_line(checkpoint_path(output, last), scratch) !=
               content_without_line(reference, scratch)) {
      tell_failure(
          "resume",
          what +
              ": ends with another checkpoint than the run without an interruption; something that the "
              "job goes on from is not saved, or not the same each time",
          {});
    } else {
      tell(true, "resume", what + ": the same bytes as without the interruption", ended.seconds);
    }
  }

  /// A rank of a job without end is killed after its second checkpoint; what it left is gone on from.
  void check_kill() {
    const std::string output = folder_ / "run-killed";
    fs::create_directories(output + "/checkpoints");
    int written = 0;
    int killed = 0;
    const Watch watch{output + "/checkpoints", [&](const std::string& name) {
                        if (!step_of(name) || ++written < 2 || killed != 0) return;
                        killed = pid_of_rank(killed_rank(), events_path(output));
                        if (killed > 0) ::kill(killed, SIGKILL);
                      }};
    const std::vector<std::string> endless{"/train/epochs=1000000", "/train/max_steps=0",
                                           "/checkpoint/keep=2"};
    const Ended ended = train("gloo", output, endless, watch);
    if (killed <= 0 || ended.exit_code != 128 + SIGKILL) {
      tell_failure("kill",
                   killed <= 0 ? why(ended)
                               : fmt::format("SIGKILL of rank {}: expected exit code {}, got {}",
                                             killed_rank(), 128 + SIGKILL, ended.exit_code),
                   ended);
      return;
    }
    const std::vector<std::int64_t> steps = steps_of_checkpoints(output);
    const std::int64_t from = steps.empty() ? 0 : steps.back();
    const Ended again =
        train("gloo", output, {endless[0], fmt::format("/train/max_steps={}", from + 1), endless[2]});
    const std::vector<std::int64_t> after = steps_of_checkpoints(output);
    if (again.exit_code != 0) {
      tell_failure("kill",
                   fmt::format("SIGKILL of rank {} is survived by no resume: {}", killed_rank(), why(again)),
                   again);
    } else if (steps.empty() || after.empty() || after.back() != from + 1) {
      tell_failure(
          "kill",
          fmt::format("after SIGKILL of rank {} the job did not go on from step {}", killed_rank(), from),
          {});
    } else {
      tell(true, "kill",
           fmt::format("SIGKILL of rank {}: exit code {}, then on from step {}", killed_rank(),
                       ended.exit_code, from),
           ended.seconds + again.seconds);
    }
  }

  void check_export(const std::string& format) {
    const std::string file = folder_ / ("exported." + format);
    const Ended ended = command({"export", "--output", file}, output_of("gloo"));
    std::error_code error;
    if (ended.exit_code != 0) {
      tell_failure("export", fmt::format("{}: {}", format, why(ended)), ended);
    } else {
      tell(true, "export", fmt::format("{}, {} bytes", format, fs::file_size(file, error)), ended.seconds);
    }
  }

  void check_clean() {
    std::vector<std::string> left = children_.end_leftovers();
    for (const std::string& name : orphaned_segments())
      if (!segments_before_.contains(name)) left.push_back("/dev/shm/" + name);
    if (const std::string problem = folder_.remove(); !problem.empty()) left.push_back(problem);
    if (left.empty()) {
      tell(true, "clean", "no process, shared memory or file is left", 0);
    } else {
      tell_failure("clean", fmt::format("left behind: {}", fmt::join(left, ", ")), {});
    }
  }

  std::string path_;
  json values_;
  std::vector<std::string> own_settings_;
  bool is_verbose_;
  int ranks_;  ///< processes; replicas in one are one rank
  SmallJob small_;
  std::string self_directory_;
  std::set<std::string> segments_before_;
  TemporaryFolder folder_{"ddprun-smoke"};
  std::vector<std::string> environment_;
  SmokeChildren children_;  // last: what it started ends before the folder goes
  int checks_ = 0;
  int failed_ = 0;
  int exit_code_ = 0;
};

}  // namespace

int run_smoke(const config::JobCommandLine& line) {
  const config::JobConfig job = read_job_file(line);
  try {
    return Smoke(job, line).run();
  } catch (const Interrupted& interrupted) {
    print_error(
        fmt::format("ddprun smoke: ended by signal {}; nothing is left behind\n", interrupted.signal));
    return exit_code::kSignalBase + interrupted.signal;
  }
}

}  // namespace ddprun::commands
