#include "rendezvous/config/job_config.h"

#include "configs/schemas.h"
#include "rendezvous/base/check.h"
#include "rendezvous/base/shell_quote.h"
#include "rendezvous/base/unique_fd.h"
#include "rendezvous/base/utf8.h"
#include "rendezvous/config/json_scanner.h"
#include "rendezvous/config/json_text.h"
#include "rendezvous/config/named_entries.h"
#include "rendezvous/config/position.h"
#include "rendezvous/config/rules.h"
#include "rendezvous/config/schema_check.h"
#include "rendezvous/config/schema_words.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

namespace ddprun::config {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestFile = 1 << 20;
constexpr std::size_t kMostShown = 20;  ///< problems of one file

/// Reads one job: holds what the steps share.
class Reader {
 public:
  Reader(const JobSource& source, json schema) : source_(source), schema_(std::move(schema)) {}

  Result<JobConfig> run() {
    auto parsed = parse_json_text(source_.text, source_.path);
    if (!parsed) return parsed.error();
    text_ = std::move(*parsed);
    values_ = text_.value;
    add_named_entries(schema_, values_);
    if (values_.is_object()) apply_overrides();
    imply(schema_, values_);
    add_named_entries(schema_, values_);  // an override may have brought more
    // Rules read values whose types they rely on: they come when each value by itself is right.
    add(check_against_schema(schema_, values_));
    if (problems_.empty()) add(check_rules(schema_, values_));
    if (!problems_.empty()) return report();
    merge_defaults(schema_, values_, "");
    if (!problems_.empty()) return report();
    return JobConfig{.path = source_.path, .values = std::move(values_), .origins = std::move(origins_)};
  }

 private:
  /// A problem and where to look for it.
  struct Located {
    std::size_t offset = 0;  ///< in the file
    std::string flag;        ///< or the flag that made it
    Problem problem;
  };

  void apply_overrides() {
    for (const Override& change : source_.overrides) {
      flags_[change.pointer] = change.flag;
      add_named_entry(schema_, change.pointer);
      if (auto problem = apply_override(schema_, change, values_)) {
        problems_.push_back({.offset = 0, .flag = change.flag, .problem = std::move(*problem)});
      }
    }
  }

  /// The flag that set the value at `pointer`, or something above or in it; the last one where there are
  /// several.
  [[nodiscard]] std::string flag_of(const std::string& pointer) const {
    std::string up = pointer;
    while (!up.empty()) {
      if (const auto flag = flags_.find(up); flag != flags_.end()) return flag->second;
      up = parent_pointer(up);
    }
    return "";
  }

  /// Where the key or value begins in the file, or the nearest thing around it.
  [[nodiscard]] std::size_t offset_of(const Problem& problem) const {
    const bool about_key =
        problem.message.starts_with("unknown key") || problem.message.starts_with("no use");
    std::string up = problem.pointer;
    auto place = text_.offsets.find(up);
    if (place && about_key && place->key) return *place->key;
    while (!place) {
      up = parent_pointer(up);
      place = text_.offsets.find(up);
    }
    return place->value;
  }

  void add(std::vector<Problem> problems) {
    for (Problem& problem : problems) {
      problems_.push_back({offset_of(problem), flag_of(problem.pointer), std::move(problem)});
    }
  }

  [[nodiscard]] std::string in_file(const Position& place) const {
    return fmt::format("{}:{}:{}", source_.path, place.line, place.column);
  }

  [[nodiscard]] Error report() {
    std::stable_sort(problems_.begin(), problems_.end(), [](const Located& a, const Located& b) {
      return std::pair(!a.flag.empty(), a.offset) < std::pair(!b.flag.empty(), b.offset);
    });
    std::string text =
        fmt::format("{}: {} problem{}", source_.path, problems_.size(), problems_.size() == 1 ? "" : "s");
    PositionWalk walk(text_.text);
    for (const Located& located : std::span(problems_).first(std::min(problems_.size(), kMostShown))) {
      const std::string place =
          located.flag.empty() ? in_file(walk.advance_to(located.offset)) : located.flag;
      const std::string& pointer = located.problem.pointer;
      text += fmt::format("\n  {}: {}: {}", place, pointer.empty() ? "/" : pointer, located.problem.message);
    }
    if (problems_.size() > kMostShown) text += fmt::format("\n  and {} more", problems_.size() - kMostShown);
    return {ErrorCode::kConfig, std::move(text)};
  }

  [[nodiscard]] Origin origin_of(const std::string& pointer) const {
    if (std::string flag = flag_of(pointer); !flag.empty()) return {OriginKind::kFlag, std::move(flag)};
    const auto place = text_.offsets.find(pointer);
    if (!place) return {OriginKind::kDefault, "default"};
    return {OriginKind::kFile, in_file(position_of(text_.text, place->value))};
  }

  void merge_defaults(const json& schema, json& object, const std::string& pointer) {
    for (const auto& [key, described] : schema["properties"].items()) {
      const std::string inner = pointer + "/" + escape_token(key);
      if (!applies(schema_, values_, inner)) continue;
      if (!object.contains(key)) object[key] = default_at(schema_, values_, inner);
      if (described["type"] == "object") {
        merge_defaults(described, object[key], inner);
        continue;
      }
      origins_[inner] = origin_of(inner);
      if (described.value("x-path", false)) make_absolute(described, object[key], inner);
    }
  }

  void make_absolute(const json& described, json& value, const std::string& pointer) {
    namespace fs = std::filesystem;
    const json words = described.value("x-words", json::array());
    if (std::find(words.begin(), words.end(), value) != words.end()) return;
    if (value.is_null()) value = (fs::path("runs") / fs::path(source_.path).stem()).string();
    const fs::path here(source_.working_directory);
    const bool is_of_file = origins_[pointer].kind == OriginKind::kFile;
    const fs::path from = is_of_file ? here / fs::path(source_.path).parent_path() : here;
    const std::string path = (from / value.get<std::string>()).lexically_normal().string();
    value = path;
    if (is_utf8(path)) return;
    add({{.pointer = pointer,
          .message = fmt::format(
              "{} is not valid UTF-8, as JSON has to be; rename the folder, or give a path from /",
              shell_quote(path))}});
  }

  const JobSource& source_;
  json schema_;
  JsonText text_;
  json values_;
  std::map<std::string, std::string> flags_;  ///< by the pointer they set
  std::vector<Located> problems_;
  std::map<std::string, Origin> origins_;
};

Result<std::string> read_file(const std::string& path) {
  // Not blocking, so that a FIFO can be refused where opening it would wait for a writer.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const auto refuse = [&](int errno_value) {
    return Error(ErrorCode::kConfig,
                 os_error(fmt::format("cannot read the job file {}", path), errno_value).message());
  };
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) return refuse(errno);
  if (S_ISDIR(status.st_mode)) return refuse(EISDIR);
  if (!S_ISREG(status.st_mode)) {
    return Error(
        ErrorCode::kConfig,
        fmt::format("the job file {} is no regular file, and every worker reads it anew; write it to a file",
                    path));
  }
  std::string text(kLongestFile + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(fd.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refuse(errno);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  if (text.size() > kLongestFile) {
    return Error(ErrorCode::kConfig, fmt::format("the job file {} is larger than {} bytes; is it a job file?",
                                                 path, kLongestFile));
  }
  return text;
}

}  // namespace

Result<JobConfig> read_job_config(const JobSource& source) {
  json schema = json::parse(train_schema_text(), nullptr, false);
  DDPRUN_CHECK(!schema.is_discarded(), "configs/train.schema.json was embedded whole");
  return Reader(source, std::move(schema)).run();
}

Result<JobConfig> load_job_config(const std::string& path, const std::vector<Override>& overrides) {
  auto text = read_file(path);
  if (!text) return text.error();
  std::error_code error;
  const std::string here = std::filesystem::current_path(error).string();
  if (error) return os_error("cannot tell the working directory", error.value());
  return read_job_config(
      {.path = path, .text = std::move(*text), .overrides = overrides, .working_directory = here});
}

std::string describe(const JobConfig& job) {
  std::vector<std::pair<std::string, std::string>> rows;
  std::size_t width = 0;
  for (const auto& [pointer, origin] : job.origins) {
    rows.emplace_back(fmt::format("{} = {}", pointer, job.values.at(json::json_pointer(pointer)).dump()),
                      origin.text);
    width = std::max(width, rows.back().first.size());
  }
  std::string text;
  for (const auto& [value, origin] : rows) text += fmt::format("{:<{}}  {}\n", value, width, origin);
  return text;
}

}  // namespace ddprun::config
