#pragma once

#include "rendezvous/base/result.h"
#include <ddprun/pt_value.h>
#include <ddprun/trainer/task.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::runtime {

/// The checkpoints that an evaluation found best, beside the newest ones of their folder:
/// best-<step>-<metric>-<value>.pt. What is best so far is what the folder has, so a restart knows it, and what a
/// person has removed is forgotten. Rank 0 alone uses it.
class BestCheckpoints {
 public:
  struct Entry {
    std::int64_t step = 0;
    double value = 0;
    std::string path;
  };

  /// Keeps so many by `metric`; those of another metric stay as they are. With 0 it writes and removes nothing.
  /// Errors: Exception kConfig for fewer, and for a metric without a name.
  BestCheckpoints(std::string folder, std::int64_t keep, Metric metric);

  /// Best first; of equal ones the earlier. Errors, here and in wants() and save(): Exception kOs, the folder cannot be
  /// read.
  [[nodiscard]] std::vector<Entry> list() const;

  /// What a person should know of best checkpoints that lie there from before and are not counted or removed any
  /// more: those of another metric, and all where none are kept. Empty: there are none. Where the folder cannot be
  /// read, that and why: a remark ends no job.
  [[nodiscard]] std::string others_in_words() const;

  /// Whether what an evaluation after `step` found belongs here. What is no finite number never does.
  [[nodiscard]] bool wants(std::int64_t step, double value) const;

  /// Where wants(step, value): writes `checkpoint`, or links it to `same`, a file of the folder that holds it ("": none
  /// does), and removes what is no longer among the best. Whole or not at all. Returns the path. Otherwise nothing
  /// happens, and there is none. Errors: Exception kOs.
  std::optional<std::string> save(std::int64_t step, double value, const PtValue& checkpoint,
                                  const std::string& same);

 private:
  [[nodiscard]] Result<std::vector<Entry>> list_or_error() const;
  void remove_what_it_replaces(std::int64_t step, const std::string& path) const;

  std::string folder_;
  std::int64_t keep_;
  Metric metric_;
  bool is_way_synced_ = false;  ///< as CheckpointDirectory's
};

/// The step of a file of that form, whatever its metric.
std::optional<std::int64_t> step_of_best(std::string_view file_name);

}  // namespace ddprun::runtime
