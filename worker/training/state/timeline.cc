#include "worker/training/state/timeline.h"

#include "rendezvous/base/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <set>
#include <sstream>
#include <utility>

namespace ddprun::training {
namespace {

std::string draw_id() {
  std::random_device source;
  return fmt::format("{:08x}{:08x}", source(), source());
}

constexpr char kBetween = '+';

std::set<std::string> parts_of(const std::string& name) {
  std::set<std::string> parts;
  std::istringstream words(name);
  for (std::string part; std::getline(words, part, kBetween);) {
    if (!part.empty()) parts.insert(part);
  }
  return parts;
}

std::string joined(const std::set<std::string>& parts) {
  std::string name;
  for (const std::string& part : parts) {
    if (!name.empty() && !part.empty()) name += kBetween;
    name += part;
  }
  return name;
}

std::string text_at(const PtDict& dict, const char* key) {
  const PtValue* value = dict.find(key);
  return value == nullptr ? std::string() : value->as_string();
}

}  // namespace

JobIdentity identify(const JobMarks& marks) {
  // A checkpoint keeps it, whose texts are UTF-8, as names of hosts need not be.
  const auto kept = [](const std::string& text) { return printable(text, std::string::npos); };
  std::set<std::string> starters(marks.launchers.begin(), marks.launchers.end());
  if (!marks.coordinator.empty()) starters.insert("coordinator-" + marks.coordinator);
  const std::string start = kept(joined(starters));
  const std::string slurm = marks.slurm_job.empty() ? "" : kept("slurm-" + marks.slurm_job);
  const bool is_queued_again = !slurm.empty() && !marks.slurm_restarts.empty() && marks.slurm_restarts != "0";
  JobIdentity job{.name = name_of_both(start, slurm), .is_same_start = marks.restarts > 0};
  job.is_restart = job.is_same_start || is_queued_again;
  if (job.is_restart) job.earlier = is_queued_again ? job.name : start;
  return job;
}

bool is_of_job(const Timeline& line, const std::string& name) {
  const std::set<std::string> ours = parts_of(name);
  const std::set<std::string> theirs = parts_of(line.job);
  return std::any_of(theirs.begin(), theirs.end(), [&](const auto& one) { return ours.contains(one); });
}

std::string name_of_both(const std::string& one, const std::string& other) {
  std::set<std::string> parts = parts_of(one);
  parts.merge(parts_of(other));
  return joined(parts);
}

Timeline begin_timeline(const JobIdentity& job, std::string began_from, std::string began_path) {
  Timeline line{.id = draw_id(),
                .job = job.name,
                .began_from = std::move(began_from),
                .began_path = std::move(began_path)};
  line.continues = line.began_from;
  return line;
}

Timeline continued(const PtDict& checkpoint) {
  Timeline line = timeline_of(checkpoint);
  if (line.id.empty()) line.id = draw_id();
  line.continues = name_of(checkpoint);
  return line;
}

std::string name_of(const PtDict& checkpoint) {
  const Timeline line = timeline_of(checkpoint);
  const PtValue* position = checkpoint.find("position");
  if (line.id.empty() || position == nullptr) return {};
  return fmt::format("{}/{}", line.id, position->as_dict().at("step").as_int());
}

Timeline timeline_of(const PtDict& checkpoint) {
  const PtValue* about = checkpoint.find("ddprun");
  if (about == nullptr) return {};
  const PtValue* line = about->as_dict().find("timeline");
  if (line == nullptr) return {};
  const PtDict& dict = line->as_dict();
  return {.id = text_at(dict, "id"),
          .job = text_at(dict, "job"),
          .began_from = text_at(dict, "began_from"),
          .began_path = text_at(dict, "began_path"),
          .continues = text_at(dict, "continues")};
}

PtDict to_dict(const Timeline& line) {
  PtDict dict;
  dict.set("id", line.id);
  dict.set("job", line.job);
  dict.set("began_from", line.began_from);
  dict.set("began_path", line.began_path);
  dict.set("continues", line.continues);
  return dict;
}

}  // namespace ddprun::training
