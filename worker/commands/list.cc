#include "rendezvous/base/exit_codes.h"
#include "rendezvous/base/suggest.h"
#include "worker/commands/commands.h"
#include "worker/commands/output.h"
#include "worker/training/parts/job_parts.h"
#include "worker/training/parts/plugins.h"
#include "worker/transforms/registry.h"
#include <ddprun/exception.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::commands {
namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

template <class Factory>
Rows rows_of(const Registry<Factory>& registry) {
  Rows rows;
  for (const std::string& name : registry.names()) rows.emplace_back(name, registry.at(name).about);
  return rows;
}

/// Those of the registry, and the two that a chain does itself, behind the others.
Rows rows_of_transforms() {
  transforms::TransformRegistry registry("transform");
  transforms::register_transforms(registry);
  Rows rows = rows_of(registry);
  rows.emplace_back("normalize", "other means and deviations than the data's; after all others");
  rows.emplace_back("random_erasing",
                    "fills a window of the normalised image in a share p of cases; the last");
  return rows;
}

struct Kind {
  std::string name;
  Rows rows;
};

std::vector<Kind> kinds_of(const training::JobParts& parts) {
  return {{"models", rows_of(parts.models)},         {"data", rows_of(parts.data)},
          {"tasks", rows_of(parts.tasks)},           {"transforms", rows_of_transforms()},
          {"optimizers", rows_of(parts.optimizers)}, {"schedules", rows_of(parts.schedules)}};
}

void add_plugin(const std::string& path, training::JobParts& parts) {
  // The loader of libraries takes a name without a slash for one of the system's.
  const nlohmann::json job{{"model", {{"plugin", std::filesystem::absolute(path).string()}}},
                           {"data", nlohmann::json::object()},
                           {"task", nlohmann::json::object()}};
  training::load_plugins(Options(job.dump()), parts);
}

/// "model" is "models".
bool is_named(const Kind& kind, const std::string& word) {
  return word == kind.name || word + "s" == kind.name;
}

}  // namespace

int run_list(const config::JobCommandLine& line) {
  training::JobParts parts = training::built_in_parts();
  for (const std::string& plugin : line.values("plugin")) add_plugin(plugin, parts);
  const std::vector<Kind> kinds = kinds_of(parts);
  const std::size_t columns = columns_of(STDOUT_FILENO);
  if (line.words.empty()) {
    std::string text;
    for (const Kind& kind : kinds)
      text +=
          fmt::format("{}{}\n{}", text.empty() ? "" : "\n", kind.name, two_columns(kind.rows, 2, columns));
    print(text);
    return exit_code::kOk;
  }
  const std::string& word = line.words.front();
  const auto found =
      std::find_if(kinds.begin(), kinds.end(), [&](const Kind& kind) { return is_named(kind, word); });
  if (found == kinds.end()) {
    std::vector<std::string> names;
    for (const Kind& kind : kinds) names.push_back(kind.name);
    const std::string near = did_you_mean(word, names);
    throw Exception(ErrorCode::kUsage,
                    fmt::format("there is no kind \"{}\"{}", word,
                                near.empty() ? fmt::format("; there are {}", fmt::join(names, ", ")) : near));
  }
  print(two_columns(found->rows, 0, columns));
  return exit_code::kOk;
}

}  // namespace ddprun::commands
