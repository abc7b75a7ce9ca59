#pragma once

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
  std::vector<std::string> columns{};  ///< of a CSV file: the features' names
  std::string scaling{};               ///< what was done with their numbers, in words
};

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

/// In the options of data that a model is judged by: those of the data that it was trained on.
inline constexpr const char* kTrainedOn = "trained_on";

/// train.csv and test.csv of the folder "path". Features are standardised, if "standardize" says so: less the
/// training data's mean, divided by its deviation, by column. Data to be judged by has the columns of kTrainedOn, by
/// name, and is scaled as that is.
DataSplits open_csv(const Options& options);

/// train_x.npy, train_y.npy, test_x.npy and test_y.npy of the folder "path".
DataSplits open_npy(const Options& options);

}  // namespace ddprun::data
