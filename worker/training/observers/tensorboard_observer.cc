#include "worker/training/observers/tensorboard_observer.h"

#include <utility>

namespace ddprun::training {

TensorBoardObserver::TensorBoardObserver(EventFile file, std::function<void(const std::string& text)> warn)
    : file_(std::move(file)), warn_(std::move(warn)) {}

void TensorBoardObserver::on_start(const StartEvent& event) {
  rate_ = "train/" + event.data.unit + "_per_second";
  begin_after(event.position.step);
}

void TensorBoardObserver::on_rollback(const RollbackEvent& event) { begin_after(event.position.step); }

void TensorBoardObserver::on_step(const StepEvent& event) {
  if (!event.loss) return;
  write(event.position.step, {{"train/loss", *event.loss}, {"train/learning_rate", event.learning_rate}});
}

void TensorBoardObserver::on_evaluation(const EvaluationEvent& event) {
  std::vector<Scalar> scalars;
  for (std::size_t i = 0; i < event.evaluation.sums.size(); ++i)
    scalars.push_back({event.name + "/" + event.evaluation.sums[i].first, event.evaluation.mean(i)});
  write(event.position.step, scalars);
}

void TensorBoardObserver::on_epoch(const EpochEvent& event) {
  if (event.seconds <= 0) return;
  write(event.position.step, {{rate_, static_cast<double>(event.units) / event.seconds}});
}

void TensorBoardObserver::begin_after(std::int64_t step) {
  if (!is_full_) check(file_.append_session_start(step + 1));
}

void TensorBoardObserver::write(std::int64_t step, const std::vector<Scalar>& scalars) {
  if (!is_full_) check(file_.append(step, scalars));
}

void TensorBoardObserver::check(bool is_written) {
  if (is_written) return;
  is_full_ = true;
  warn_("cannot write to the TensorBoard file; the training goes on, and TensorBoard shows it up to here");
}

}  // namespace ddprun::training
