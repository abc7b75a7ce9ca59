#include "configs/schemas.h"
#include "rendezvous/base/exit_codes.h"
#include "rendezvous/base/print.h"
#include "rendezvous/base/printable.h"
#include "rendezvous/base/unique_fd.h"
#include "worker/commands/commands.h"
#include "worker/commands/output.h"
#include <ddprun/exception.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::commands {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::size_t kWidth = 100;

/// What the file sets, in this order; the schema has the comments.
ordered_json start(const std::string& name) {
  return {{"name", name},
          {"model", {{"type", "mnist_cnn"}}},
          {"data", {{"type", "synthetic"}, {"train_samples", 4096}}},
          {"train", {{"epochs", 3}, {"batch_size", 64}}},
          {"optimizer", {{"type", "adamw"}, {"learning_rate", 0.002}}},
          {"schedule", {{"type", "cosine"}, {"warmup_steps", 20}}},
          {"checkpoint", {{"every_epochs", 1}, {"keep", 3}}},
          {"output_dir", "runs/" + name},
          {"resume", "auto"},
          {"seed", 0}};
}

std::string head(const std::string& path) {
  const std::string validate = "ddprun validate " + path;
  const std::string train = "ddprun --nproc-per-node 2 " + path;
  return fmt::format(
      "// A job file of ddprun: JSON, and comments like this one.\n"
      "//   {0:<{3}}   what would be trained\n"
      "//   {1:<{3}}   trains it on two ranks\n"
      "//   {2:<{3}}   what else there is: data, tasks, transforms, optimizers, schedules\n"
      "// Keys that are not set have their defaults.\n",
      validate, train, "ddprun list models", train.size());
}

/// The words of `text` in lines that begin with "//".
std::string comment(std::string_view text, const std::string& indent) {
  std::string lines;
  std::string line = indent + "//";
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    if (line.size() + 1 + word.size() > kWidth && line.size() > indent.size() + 2) {
      lines += line + "\n";
      line = indent + "//";
    }
    line += fmt::format(" {}", word);
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
  return lines + line + "\n";
}

std::string written(const ordered_json& object, const json& schema, const std::string& indent) {
  std::string text = "{\n";
  std::size_t left = object.size();
  const std::string inner = indent + "  ";
  for (const auto& [key, value] : object.items()) {
    const json& described = schema.at("properties").at(key);
    text += comment(described.at("description").get<std::string>(), inner);
    text += fmt::format("{}{}: {}{}\n", inner, json(key).dump(),
                        value.is_object() ? written(value, described, inner) : value.dump(),
                        --left > 0 ? "," : "");
  }
  return text + indent + "}";
}

}  // namespace

int run_init(const config::JobCommandLine& line) {
  std::string path = line.words.empty() ? "job" : line.words.front();
  if (!path.ends_with(".json")) path += ".json";
  const std::string name = fs::path(path).stem().string();
  if (name.empty() || name.starts_with('.') || printable(path, std::string::npos) != path)
    throw Exception(ErrorCode::kUsage, fmt::format("\"{}\" is no name for a job", line.words.front()));
  const std::string text =
      head(path) + written(start(name), json::parse(config::train_schema_text()), "") + "\n";
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file && errno == EEXIST)
    throw Exception(ErrorCode::kUsage, fmt::format("{} is there already; name another one", path));
  if (!file) throw Exception(ErrorCode::kOs, fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  if (!print_all(file.get(), text)) {
    const int error = errno;
    ::unlink(path.c_str());
    throw Exception(ErrorCode::kOs, fmt::format("cannot write {}: {}", path, std::strerror(error)));
  }
  print(fmt::format("{0} is written; train it: ddprun --nproc-per-node 2 {0}\n", path));
  return exit_code::kOk;
}

}  // namespace ddprun::commands
