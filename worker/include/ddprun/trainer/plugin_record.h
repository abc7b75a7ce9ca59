#pragma once

#include <ddprun/trainer/batch.h>
#include <ddprun/trainer/data_source.h>
#include <ddprun/trainer/model.h>
#include <ddprun/trainer/options.h>
#include <ddprun/trainer/registry.h>
#include <ddprun/trainer/task.h>
#include <ddprun/version.h>

#include <torch/version.h>

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

/// Changes whenever a class of these headers or the record does.
inline constexpr std::int64_t kInterface = 2;

/// What a plug-in was built with. `interface` stands first for ever: a trainer of another one looks at nothing else, so
/// that a record may have more members or fewer with each.
struct Record {
  std::int64_t interface;
  const char* torch_version;
  std::int64_t cxx11_abi;
  const Node* first;
  const char* ddprun_version;
  std::int64_t compiler_abi;   ///< __GXX_ABI_VERSION, of which the thousands count: GCC and Clang have 1
  std::int64_t glibcxx_debug;  ///< 1: the standard library's containers have another layout (_GLIBCXX_DEBUG)
};

}  // namespace ddprun::plugin

#ifdef _GLIBCXX_DEBUG
#define DDPRUN_PLUGIN_GLIBCXX_DEBUG 1
#else
#define DDPRUN_PLUGIN_GLIBCXX_DEBUG 0
#endif

/// The record of what this is compiled with: a macro, so that no linker takes another library's for it.
#define DDPRUN_PLUGIN_RECORD(first_node)                                                          \
  ::ddprun::plugin::Record {                                                                      \
    .interface = ::ddprun::plugin::kInterface, .torch_version = TORCH_VERSION,                    \
    .cxx11_abi = _GLIBCXX_USE_CXX11_ABI, .first = (first_node), .ddprun_version = DDPRUN_VERSION, \
    .compiler_abi = __GXX_ABI_VERSION, .glibcxx_debug = DDPRUN_PLUGIN_GLIBCXX_DEBUG               \
  }
