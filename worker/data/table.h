#pragma once

#include "rendezvous/base/result.h"
#include <ddprun/trainer/data_source.h>
#include <ddprun/trainer/options.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::data {

/// What is known of samples, and what is to be learned about each: on the CPU, a row of each tensor for every sample.
struct Table {
  at::Tensor features;
  at::Tensor targets;
  std::vector<std::string> columns{};  ///< of a CSV file: all names, in order
};

/// Reads a CSV text: a line of names, then lines of as many numbers, separated by commas; a name may stand in quotes,
/// and a comma in them. `target` names the column to be learned; empty: the last one. All numbers are finite.
///
/// Returns features [rows, columns - 1] and targets [rows] in float64.
///
/// Errors  kCorrupt, kConfig: one sentence with the name, the line and the column.
Result<Table> parse_csv(const std::string& text, const std::string& target, const std::string& name);

/// Reads a file of numpy.save: little-endian integers of 1, 2, 4 and 8 bytes, bool, float32 and float64, in C order;
/// the first dimension counts the rows. The tensor has the file's dtype, but uint8 for bool, int32 for uint16, int64
/// for uint32.
///
/// Errors  kCorrupt, naming the file, what was expected and found.
Result<at::Tensor> parse_npy(std::vector<std::uint8_t> bytes, const std::string& name);

/// A table as a data source: "features" in float32, and "label", a class as int64, or "target" in float32.
class TableSource final : public DataSource {
 public:
  /// classes   0: targets are numbers
  /// Errors    Exception kCorrupt: targets that are no classes, or not as many as features; numbers that are not
  ///           finite.
  TableSource(Table table, std::int64_t classes, const std::string& name);

  [[nodiscard]] std::int64_t size() const override { return table_.features.size(0); }
  [[nodiscard]] const DataShape& shape() const override { return shape_; }
  [[nodiscard]] Batch make_batch(const BatchRequest& request) const override;

 private:
  Table table_;
  DataShape shape_;
};

/// Features of another CSV file as the job's model is fed: the columns of the training data, by name, standardised
/// as there: float64, [rows, columns]. A column of the target, and others, are left out.
/// Errors  Exception kCorrupt, kConfig, naming the file and the column that it lacks.
at::Tensor read_csv_features(const Options& options, const std::string& path);

/// train.csv and test.csv of the folder "path". Features are standardised, if "standardize" says so: less the
/// training data's mean, divided by its deviation, by column.
DataSplits open_csv(const Options& options);

/// train_x.npy, train_y.npy, test_x.npy and test_y.npy of the folder "path".
DataSplits open_npy(const Options& options);

}  // namespace ddprun::data
