#pragma once

#include "worker/models/model.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>

namespace ddprun::training {

struct DataConfig {
  std::string type;  ///< "mnist" or "synthetic"
  std::string path;
  std::int64_t train_samples = 0;  ///< 0: all
  std::int64_t test_samples = 0;
  int loader_threads = 1;
  int prefetch_batches = 4;
};

struct OptimizerConfig {
  std::string type = "sgd";
  double learning_rate = 0.01;
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;
  double weight_decay = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  bool amsgrad = false;
};

struct ScheduleConfig {
  std::string type = "constant";  ///< "constant", "cosine" or "step"
  std::int64_t warmup_steps = 0;
  std::int64_t step_epochs = 1;
  double gamma = 0.1;
  double final_factor = 0;
};

struct CheckpointConfig {
  std::int64_t every_epochs = 1;  ///< 0: only at the end
  std::int64_t every_steps = 0;   ///< 0: not by steps
  int keep = 3;
};

struct DdpConfig {
  double bucket_cap_mb = 25;
  bool find_unused_parameters = false;
  bool static_graph = false;
  bool broadcast_buffers = true;
  bool gradient_as_bucket_view = true;
};

struct LogConfig {
  std::int64_t every_steps = 50;
  std::string progress = "auto";  ///< "auto", "always" or "never"
};

/// A checked job file as typed values. What each means is said once, in configs/train.schema.json.
struct TrainConfig {
  std::string backend = "auto";
  std::string device = "auto";
  std::uint64_t seed = 0;
  std::string output_dir;
  std::string resume = "auto";  ///< "auto", "never" or a path
  models::ModelOptions model;
  DataConfig data;
  std::int64_t epochs = 1;
  std::int64_t batch_size = 64;
  std::int64_t max_steps = 0;
  std::int64_t eval_every_epochs = 1;
  std::int64_t eval_batch_size = 256;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  CheckpointConfig checkpoint;
  DdpConfig ddp;
  std::int64_t divergence_check = 0;  ///< every so many steps; 0: never
  LogConfig log;
};

/// `values` as rendezvous/config gives them: complete and valid. Keys that do not apply to the chosen types
/// are absent.
TrainConfig read_train_config(const nlohmann::json& values);

}  // namespace ddprun::training
