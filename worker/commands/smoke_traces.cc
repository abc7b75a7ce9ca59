#include "worker/commands/smoke_traces.h"

#include <ddprun/checkpoint.h>
#include <ddprun/pt_file.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>

namespace ddprun::commands {

using nlohmann::json;

namespace {

std::vector<json> json_lines(const std::string& path) {
  std::vector<json> lines;
  std::istringstream stream(content_of(path));
  for (std::string line; std::getline(stream, line);) {
    json parsed = json::parse(line, nullptr, false);
    if (parsed.is_object()) lines.push_back(std::move(parsed));
  }
  return lines;
}

}  // namespace

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::optional<std::int64_t> step_of(const std::string& name) {
  std::int64_t step = 0;
  int end = 0;
  if (std::sscanf(name.c_str(), "step-%ld.pt%n", &step, &end) != 1) return std::nullopt;
  return static_cast<std::size_t>(end) == name.size() ? std::optional(step) : std::nullopt;
}

std::vector<std::int64_t> steps_of_checkpoints(const std::string& output) {
  std::vector<std::int64_t> steps;
  for (const auto& entry : CheckpointDirectory(output + "/checkpoints", /*keep=*/1).list())
    steps.push_back(entry.step);
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string checkpoint_path(const std::string& output, std::int64_t step) {
  return fmt::format("{}/checkpoints/step-{:08}.pt", output, step);
}

std::string content_without_line(const std::string& path, const std::string& scratch) {
  PtDict checkpoint = load_pt(path).as_dict();
  for (auto& [key, value] : checkpoint.entries) {
    if (key.as_string() != "ddprun") continue;
    PtDict about = value.as_dict();
    std::erase_if(about.entries, [](const auto& entry) { return entry.first.as_string() == "timeline"; });
    value = std::move(about);
  }
  save_pt(scratch, checkpoint);
  return content_of(scratch);
}

std::string losses_in_words(const std::string& output) {
  std::vector<std::string> found;
  for (const json& line : json_lines(output + "/metrics.jsonl"))
    if (line.value("event", "") == "epoch" && line["loss"].is_number())
      found.push_back(fmt::format("{:.4f}", line["loss"].get<double>()));
  return found.empty() ? "" : fmt::format(", loss {} → {}", found.front(), found.back());
}

int pid_of_rank(int rank, const std::string& events_path) {
  for (const json& line : json_lines(events_path))
    if (line.value("event", "") == "worker_spawned" && line.value("rank", -1) == rank)
      return line.value("pid", 0);
  return -1;
}

std::string last_words(std::string_view err) {
  std::istringstream stream{std::string(err)};
  std::string first;
  std::string last;
  std::string said;
  bool is_list = false;
  for (std::string line; std::getline(stream, line);) {
    if (line.empty()) continue;
    for (const std::string_view name :
         {"ddprun-worker: ", "ddprun validate: ", "ddprun eval: ", "ddprun export: "}) {
      if (!said.empty() || !line.starts_with(name)) continue;
      said = line.substr(name.size());
      is_list = said.ends_with("problems") || said.ends_with("problem");
    }
    // The problems of a list stand below its head.
    if (is_list && line.starts_with("  ") && !line.starts_with("  ("))
      said += (said.back() == 'm' || said.back() == 's' ? ": " : "; ") + line.substr(2);
    if (first.empty() && line.starts_with("ddprun: ")) first = line.substr(8);
    last = line;
  }
  return !said.empty() ? said : !first.empty() ? first : last;
}

}  // namespace ddprun::commands
