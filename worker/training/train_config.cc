#include "worker/training/train_config.h"

#include <nlohmann/json.hpp>

namespace ddprun::training {
namespace {

using Json = nlohmann::json;

/// Takes the value of `key` over where it is there.
template <class T>
void read(const Json& object, const char* key, T& target) {
  const auto found = object.find(key);
  if (found != object.end() && !found->is_null()) found->get_to(target);
}

void read_model(const Json& json, models::ModelOptions& model) {
  read(json, "type", model.type);
  read(json, "hidden", model.hidden);
  read(json, "dropout", model.dropout);
}

void read_data(const Json& json, DataConfig& data) {
  read(json, "type", data.type);
  read(json, "path", data.path);
  read(json, "train_samples", data.train_samples);
  read(json, "test_samples", data.test_samples);
  read(json, "loader_threads", data.loader_threads);
  read(json, "prefetch_batches", data.prefetch_batches);
}

void read_train(const Json& json, TrainConfig& config) {
  read(json, "epochs", config.epochs);
  read(json, "batch_size", config.batch_size);
  read(json, "max_steps", config.max_steps);
  read(json, "eval_every_epochs", config.eval_every_epochs);
  read(json, "eval_batch_size", config.eval_batch_size);
}

void read_optimizer(const Json& json, OptimizerConfig& optimizer) {
  read(json, "type", optimizer.type);
  read(json, "learning_rate", optimizer.learning_rate);
  read(json, "momentum", optimizer.momentum);
  read(json, "dampening", optimizer.dampening);
  read(json, "nesterov", optimizer.nesterov);
  read(json, "weight_decay", optimizer.weight_decay);
  read(json, "eps", optimizer.eps);
  read(json, "amsgrad", optimizer.amsgrad);
  if (const auto betas = json.find("betas"); betas != json.end()) {
    optimizer.beta1 = betas->at(0).get<double>();
    optimizer.beta2 = betas->at(1).get<double>();
  }
}

void read_schedule(const Json& json, ScheduleConfig& schedule) {
  read(json, "type", schedule.type);
  read(json, "warmup_steps", schedule.warmup_steps);
  read(json, "step_epochs", schedule.step_epochs);
  read(json, "gamma", schedule.gamma);
  read(json, "final_factor", schedule.final_factor);
}

void read_checkpoint(const Json& json, CheckpointConfig& checkpoint) {
  read(json, "every_epochs", checkpoint.every_epochs);
  read(json, "every_steps", checkpoint.every_steps);
  read(json, "keep", checkpoint.keep);
}

void read_ddp(const Json& json, DdpConfig& ddp) {
  read(json, "bucket_cap_mb", ddp.bucket_cap_mb);
  read(json, "find_unused_parameters", ddp.find_unused_parameters);
  read(json, "static_graph", ddp.static_graph);
  read(json, "broadcast_buffers", ddp.broadcast_buffers);
  read(json, "gradient_as_bucket_view", ddp.gradient_as_bucket_view);
}

void read_log(const Json& json, LogConfig& log) {
  read(json, "every_steps", log.every_steps);
  read(json, "progress", log.progress);
}

}  // namespace

TrainConfig read_train_config(const Json& values) {
  TrainConfig config;
  read(values, "backend", config.backend);
  read(values, "device", config.device);
  read(values, "seed", config.seed);
  read(values, "output_dir", config.output_dir);
  read(values, "resume", config.resume);
  read_model(values.at("model"), config.model);
  read_data(values.at("data"), config.data);
  read_train(values.at("train"), config);
  read_optimizer(values.at("optimizer"), config.optimizer);
  read_schedule(values.at("schedule"), config.schedule);
  read_checkpoint(values.at("checkpoint"), config.checkpoint);
  read_ddp(values.at("ddp"), config.ddp);
  read(values, "divergence_check", config.divergence_check);
  read_log(values.at("log"), config.log);
  return config;
}

}  // namespace ddprun::training
