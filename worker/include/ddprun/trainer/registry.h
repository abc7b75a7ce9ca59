#pragma once

#include <ddprun/exception.h>
#include <ddprun/trainer/batch.h>
#include <ddprun/trainer/data_source.h>
#include <ddprun/trainer/model.h>
#include <ddprun/trainer/options.h>
#include <ddprun/trainer/task.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

/// What a job file can name, with what makes it: name → factory. An object without global state: who has parts
/// to offer adds them by a call.
template <class Factory>
class Registry {
 public:
  struct Entry {
    std::string about;  ///< one sentence, for `ddprun list`
    Factory make;
    bool is_plugins = false;  ///< its options are its own, and not the schema's
  };

  /// `kind` is what messages call an entry: "model".
  explicit Registry(std::string kind) : kind_(std::move(kind)) {}

  /// Errors  Exception kConfig: the name is taken.
  void add(const std::string& name, std::string about, Factory make, bool is_plugins = false) {
    const bool is_new =
        entries_.try_emplace(name, Entry{std::move(about), std::move(make), is_plugins}).second;
    if (is_new) return;
    throw Exception(ErrorCode::kConfig, "there are two entries of the name " + name + " for a " + kind_ +
                                            "; give one another name");
  }

  /// Errors  Exception kConfig, with the names there are.
  [[nodiscard]] const Entry& at(const std::string& name) const {
    const auto found = entries_.find(name);
    if (found != entries_.end()) return found->second;
    std::string list;
    for (const std::string& other : names()) list += (list.empty() ? "" : ", ") + other;
    throw Exception(ErrorCode::kConfig, "no " + kind_ + " " + name + "; there are " + list);
  }

  /// In alphabetical order.
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, entry] : entries_) names.push_back(name);
    return names;
  }

 private:
  std::string kind_;
  std::map<std::string, Entry> entries_;
};

/// Draws initial weights from the default CPU generator.
using ModelFactory = std::function<std::shared_ptr<Model>(const Options& options, const DataShape& data)>;
/// Every rank makes its own; `seed` is the job's.
using DataFactory = std::function<DataSplits(const Options& options, std::uint64_t seed)>;
using TaskFactory = std::function<std::unique_ptr<Task>(const Options& options, const DataShape& data)>;

using ModelRegistry = Registry<ModelFactory>;
using DataRegistry = Registry<DataFactory>;
using TaskRegistry = Registry<TaskFactory>;

}  // namespace ddprun
