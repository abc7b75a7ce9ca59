#include "worker/training/state/saved_part.h"

#include <ddprun/exception.h>

#include <fmt/format.h>

namespace ddprun::training {
namespace {

constexpr std::int64_t kFormat = 2;

PtDict to_dict(const AboutJob& about) {
  PtDict job;
  job.set("format", kFormat);
  job.set("model", about.model);
  job.set("optimizer", about.optimizer);
  job.set("config", about.config);
  job.set("timeline", to_dict(about.timeline));
  return job;
}

}  // namespace

PtDict make_checkpoint(const AboutJob& about, const SavedParts& parts) {
  PtDict checkpoint;
  for (const auto& part : parts) checkpoint.set(part->key(), part->save());
  checkpoint.set("ddprun", to_dict(about));
  return checkpoint;
}

PtDict make_common_state(const AboutJob& about, const SavedParts& parts) {
  PtDict common;
  for (const auto& part : parts) common.set(part->key(), part->save_common());
  common.set("ddprun", to_dict(about));
  return common;
}

PtDict make_own_state(const SavedParts& parts) {
  PtDict own;
  for (const auto& part : parts) own.set(part->key(), part->save_own());
  return own;
}

void load_rank_state(const RankState& state, const SavedParts& parts) {
  for (const auto& part : parts) part->load_halves(state.common.at(part->key()), state.own.at(part->key()));
}

AboutJob read_about(const PtDict& checkpoint) {
  if (checkpoint.find("ddprun") == nullptr) {
    throw Exception(ErrorCode::kConfig, "it has no \"ddprun\" entry, so ddprun did not write it");
  }
  const PtDict& job = checkpoint.at("ddprun").as_dict();
  const std::int64_t format = job.at("format").as_int();
  if (format != kFormat) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("it has format {}, and this ddprun reads format {}; use the {} ddprun that "
                                "wrote it, or start anew with --set /resume=never",
                                format, kFormat, format > kFormat ? "later" : "earlier"));
  }
  return {.model = job.at("model").as_string(),
          .optimizer = job.at("optimizer").as_string(),
          .config = job.at("config").as_string(),
          .timeline = timeline_of(checkpoint)};
}

std::vector<std::string> load_parts(const PtDict& checkpoint, const SavedParts& parts) {
  std::vector<std::string> missing;
  for (const auto& part : parts) {
    if (const PtValue* value = checkpoint.find(part->key())) {
      part->load(*value);
    } else if (part->is_essential()) {
      throw Exception(ErrorCode::kConfig, fmt::format("it has no \"{}\" entry", part->key()));
    } else {
      missing.push_back(part->key());
    }
  }
  return missing;
}

}  // namespace ddprun::training
