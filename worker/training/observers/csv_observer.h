#pragma once

#include "rendezvous/base/unique_fd.h"
#include "worker/training/observers/observer.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ddprun::training {

/// Fields as a line of CSV (RFC 4180): those with a comma, a quote or a line break are quoted.
std::string csv_line(const std::vector<std::string>& fields);

/// A training as a table, metrics.csv: a row for each "step" and "epoch" of metrics.jsonl. The columns are all that
/// the job can say, known when it starts; what a row does not say is empty. A resumed job appends; where its columns
/// are others, the file of before is put aside as <file>.old-N.
class CsvObserver final : public Observer {
 public:
  /// `warn` is told once of a disk that takes no more.
  CsvObserver(std::string path, std::function<void(const std::string& text)> warn);

  void on_start(const StartEvent& event) override;
  void on_step(const StepEvent& event) override;
  void on_epoch(const EpochEvent& event) override;

 private:
  void write(const std::string& event, const std::map<std::string, double>& values);
  void append(const std::string& line);
  void warn_once(const std::string& what);

  std::string path_;
  std::function<void(const std::string& text)> warn_;
  std::vector<Metric> metrics_;
  std::string rate_;
  std::vector<std::string> columns_;  ///< after "event"
  UniqueFd fd_;
  bool ends_in_part_ = false;  ///< of a line
};

}  // namespace ddprun::training
