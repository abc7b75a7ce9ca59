#include "worker/training/observers/observer.h"

namespace ddprun::training {

std::string to_string(Ending ending) {
  switch (ending) {
    case Ending::kComplete:
      return "complete";
    case Ending::kStopped:
      return "stopped";
    case Ending::kAbandoned:
      return "abandoned";
  }
  return {};
}

std::map<std::string, double> epoch_numbers(const EpochEvent& event, const std::vector<Metric>& metrics,
                                            const std::string& rate) {
  std::map<std::string, double> numbers{
      {"epoch", static_cast<double>(event.number)},
      {"step", static_cast<double>(event.position.step)},
      {"loss", event.train_loss.mean()},
      {rate, event.seconds > 0 ? static_cast<double>(event.units) / event.seconds : 0.0},
      {"seconds", event.seconds},
      {"learning_rate", event.learning_rate}};
  for (std::size_t i = 0; event.evaluation != nullptr && i < metrics.size(); ++i) {
    const std::string& name = metrics[i].name;
    numbers[name == "loss" ? "held_out_loss" : name] = event.evaluation->mean(i);
    for (const auto& [data, evaluation] : event.position.more_evaluations)
      numbers[data + "/" + name] = evaluation.mean(i);
  }
  return numbers;
}

}  // namespace ddprun::training
