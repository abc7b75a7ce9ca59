#include "worker/training/observers/metrics_observer.h"

#include "worker/training/state/time_spent.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace ddprun::training {

MetricsObserver::MetricsObserver(MetricsLog& log, Facts facts) : log_(log), facts_(std::move(facts)) {}

void MetricsObserver::on_start(const StartEvent& event) {
  metrics_ = event.metrics;
  length_ = event.length;
  rate_ = event.data.unit + "_per_second";
  nlohmann::json record{{"world_size", event.world.ranks},
                        {"processes", event.processes},
                        {"global_batch", event.world.global_batch},
                        {"backend", facts_.backend},
                        {"step", event.position.step},
                        {"restart_count", facts_.restart_count}};
  if (!facts_.restart_cause.empty()) record["restart_cause"] = facts_.restart_cause;
  log_.write("start", record);
}

void MetricsObserver::on_step(const StepEvent& event) {
  if (!event.loss) return;
  log_.write("step", {{"step", event.position.step},
                      {"epoch", event.position.epoch + 1},
                      {"loss", *event.loss},
                      {"learning_rate", event.learning_rate}});
}

void MetricsObserver::on_checkpoint(const CheckpointEvent& event) {
  nlohmann::json record{{"step", event.position.step}, {"path", event.path}};
  if (event.is_best) record["best"] = true;
  log_.write("checkpoint", record);
}

void MetricsObserver::on_rollback(const RollbackEvent& event) {
  log_.write("rollback", {{"step", event.position.step},
                          {"broken_step", event.broken_step},
                          {"what", event.what},
                          {"path", event.path}});
}

void MetricsObserver::on_epoch(const EpochEvent& event) {
  nlohmann::json record = epoch_numbers(event, metrics_, rate_);
  record["epoch"] = event.number;
  record["step"] = event.position.step;
  log_.write("epoch", record);
}

void MetricsObserver::on_end(const EndEvent& event) {
  nlohmann::json record{
      {"ending", to_string(event.ending)}, {"step", event.position.step}, {"seconds", event.seconds}};
  if (is_stopped_early(event.position, length_)) {
    const Plateau& plateau = event.position.plateau;
    record["stopped_early"] = {{"metric", plateau.metric},
                               {"best", plateau.best ? nlohmann::json(*plateau.best) : nlohmann::json()},
                               {"best_epoch", plateau.best_epoch},
                               {"evaluations", plateau.evaluations}};
  }
  for (const std::vector<double>& seconds : event.times_of_ranks) {
    nlohmann::json rank = nlohmann::json::object();
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      std::string name = i < kActivityNames.size() ? kActivityNames[i] : "other";
      std::replace(name.begin(), name.end(), ' ', '_');
      rank[name] = seconds[i];
    }
    record["time_spent"].push_back(std::move(rank));
  }
  log_.write("end", record);
}

void MetricsObserver::on_failure(const FailureEvent& event) {
  log_.write("end", {{"ending", "failed"}, {"step", event.position.step}, {"what", event.what}});
}

}  // namespace ddprun::training
