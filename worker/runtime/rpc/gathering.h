#pragma once

#include "worker/runtime/rpc/python_words.h"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>

namespace ddprun::runtime {

/// Who has arrived at each meeting of all workers (Python's AllGatherStates): they tell the leader, the first by name,
/// and the leader tells them, or says who is gone.
/// Threads  any.
class Gathering {
 public:
  /// What another worker says.
  void hear(const GatherCall& call);

  /// Those of `names` that have not arrived; empty when all have, or when the leader has said so.
  std::set<std::string> missing(const std::string& sequence, const std::set<std::string>& names);
  /// Who is gone for good, as the leader says; empty for nobody.
  std::string lost();
  /// Waits until one of these, at most until `deadline`. Whether it came.
  bool wait_until(const std::string& sequence, const std::set<std::string>& names,
                  std::chrono::steady_clock::time_point deadline);
  void forget(const std::string& sequence);

 private:
  struct Meeting {
    std::set<std::string> arrived;
    bool is_over = false;
  };
  static std::set<std::string> missing_of(const Meeting& meeting, const std::set<std::string>& names);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Meeting> meetings_;
  std::string lost_;
};

}  // namespace ddprun::runtime
