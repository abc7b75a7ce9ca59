#include "launcher/agent/worker_end.h"

#include "launcher/report/symptom.h"

#include <algorithm>
#include <csignal>

namespace ddprun::launcher {

std::optional<int> signal_before(const SupervisedWorker& worker, const ExitStatus& status) {
  const bool ends_by_it = status.is_killed() && status.signal() == SIGKILL;
  return worker.stopped_with == SIGKILL && !ends_by_it ? worker.asked_with : worker.stopped_with;
}

void note_our_part(WorkerOutcome& worker, const SupervisedWorker& seen) {
  worker.stopped_with = worker.status ? signal_before(seen, *worker.status) : seen.stopped_with;
  const bool is_cut_short = worker.was_leaving == Leaving::kDumping && worker.stopped_with == SIGKILL &&
                            worker.status && worker.status->is_killed();
  if (worker.was_leaving != Leaving::kNotYet && !is_cut_short) worker.stopped_with.reset();
}

Ending ending_of(const WorkerOutcome& worker, const std::optional<ErrorFile>& error_file,
                 const std::vector<int>& final_codes) {
  Ending ending = worker.status->is_success() ? Ending() : judge_worker(worker, error_file);
  ending.was_over = worker.was_leaving != Leaving::kNotYet && !worker.stopped_with;
  if (worker.is_killed_for_hang() && worker.hang.is_of_those_ended) {
    ending.weight = Weight::kSymptom;
    ending.symptom = "waited for a rank that had ended";
  }
  const bool is_final =
      std::find(final_codes.begin(), final_codes.end(), worker.status->code()) != final_codes.end();
  // Who says "do not restart" knows what it ended of.
  if (is_final && ending.weight == Weight::kDoubtful) ending.weight = Weight::kCause, ending.symptom.clear();
  return ending;
}

}  // namespace ddprun::launcher
