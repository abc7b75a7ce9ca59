#pragma once

#include <ddprun/trainer/batch.h>
#include <ddprun/trainer/data_source.h>
#include <ddprun/trainer/model.h>
#include <ddprun/trainer/options.h>
#include <ddprun/trainer/registry.h>
#include <ddprun/trainer/task.h>

#include <cstdint>
#include <memory>

/// What a plug-in (plugin.h) and the trainer that opens it show each other.
namespace ddprun::plugin {

enum class Kind { kModel, kData, kTask };

/// One registration: linked into the library's own list while it is opened, and looked at only after its
/// record has been checked.
struct Node {
  Kind kind;
  const char* name;
  std::shared_ptr<Model> (*make_model)(const Options&, const DataShape&) = nullptr;
  DataSplits (*make_data)(const Options&, std::uint64_t seed) = nullptr;
  std::unique_ptr<Task> (*make_task)(const Options&, const DataShape&) = nullptr;
  const Node* next = nullptr;
};

/// Changes whenever a class of these headers does.
inline constexpr std::int64_t kInterface = 1;

/// What a plug-in was built with. The members that tell that come first and never change.
struct Record {
  std::int64_t interface;
  const char* torch_version;
  std::int64_t cxx11_abi;
  const Node* first;
};

}  // namespace ddprun::plugin
