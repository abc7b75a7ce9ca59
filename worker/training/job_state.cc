#include "worker/training/job_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <cstring>

namespace ddprun::training {
namespace {

constexpr std::int64_t kFormat = 1;

PtDict loss_dict(const LossSum& sum) {
  PtDict dict;
  dict.set("loss_sum", sum.loss);
  dict.set("samples", sum.samples);
  return dict;
}

LossSum read_loss(const PtDict& dict) {
  return {dict.at("loss_sum").as_double(), dict.at("samples").as_int()};
}

PtDict metrics_dict(const Position& position) {
  PtDict metrics;
  metrics.set("epoch_so_far", loss_dict(position.epoch_loss));
  if (position.evaluation) {
    PtDict held_out = loss_dict(position.evaluation->loss);
    held_out.set("correct", position.evaluation->correct);
    metrics.set("held_out", std::move(held_out));
  }
  return metrics;
}

at::Tensor to_tensor(const std::string& bytes) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  if (!bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

std::string to_bytes(const at::Tensor& tensor) {
  // A view of a storage has more bytes than lie there when its strides are 0, and holes when they are large.
  if (tensor.scalar_type() != at::kByte || tensor.dim() != 1 || !tensor.is_contiguous()) {
    throw Exception(ErrorCode::kCorrupt,
                    fmt::format("its entry \"rng\" holds {} [{}] with strides [{}]; expected a row of bytes",
                                at::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "),
                                fmt::join(tensor.strides(), ", ")));
  }
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

}  // namespace

PtDict make_checkpoint(const JobState& state, PtDict model, PtDict optimizer) {
  PtDict sampler;
  sampler.set("epoch", state.position.epoch);
  sampler.set("samples_seen", state.position.samples_seen);
  PtList rng;
  for (const std::string& bytes : state.generator_states) rng.items.emplace_back(to_tensor(bytes));
  PtDict about;
  about.set("format", kFormat);
  about.set("model", state.model_type);
  about.set("optimizer", state.optimizer_type);
  about.set("config", state.config);

  PtDict checkpoint;
  checkpoint.set("model", std::move(model));
  checkpoint.set("optimizer", std::move(optimizer));
  checkpoint.set("epoch", state.position.epoch);
  checkpoint.set("step", state.position.step);
  checkpoint.set("sampler", std::move(sampler));
  checkpoint.set("rng", std::move(rng));
  checkpoint.set("metrics", metrics_dict(state.position));
  checkpoint.set("ddprun", std::move(about));
  return checkpoint;
}

JobState read_job_state(const PtDict& checkpoint) {
  if (checkpoint.find("ddprun") == nullptr) {
    throw Exception(ErrorCode::kConfig, "it has no \"ddprun\" entry, so ddprun did not write it");
  }
  const PtDict& about = checkpoint.at("ddprun").as_dict();
  if (about.at("format").as_int() != kFormat) {
    throw Exception(ErrorCode::kConfig, "it has a format that a later ddprun wrote; use that one to read it");
  }
  JobState state;
  state.model_type = about.at("model").as_string();
  state.optimizer_type = about.at("optimizer").as_string();
  state.config = about.at("config").as_string();
  state.position.epoch = checkpoint.at("epoch").as_int();
  state.position.step = checkpoint.at("step").as_int();
  state.position.samples_seen = checkpoint.at("sampler").as_dict().at("samples_seen").as_int();
  const PtDict& metrics = checkpoint.at("metrics").as_dict();
  state.position.epoch_loss = read_loss(metrics.at("epoch_so_far").as_dict());
  if (const PtValue* held_out = metrics.find("held_out")) {
    state.position.evaluation =
        Evaluation{read_loss(held_out->as_dict()), held_out->as_dict().at("correct").as_int()};
  }
  for (const PtValue& bytes : checkpoint.at("rng").as_sequence()) {
    state.generator_states.push_back(to_bytes(bytes.as_tensor()));
  }
  return state;
}

}  // namespace ddprun::training
