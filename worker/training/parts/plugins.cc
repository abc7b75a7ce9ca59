#include "worker/training/parts/plugins.h"

#include <ddprun/exception.h>
#include <ddprun/trainer/plugin_record.h>

#include <cxxabi.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>
#include <nlohmann/json.hpp>
#include <torch/version.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string_view>

namespace ddprun::training {
namespace {

constexpr const char* kRecord = "ddprun_plugin_record";

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Exception(ErrorCode::kConfig, fmt::format("plug-in {}: {}", path, why));
}

/// The C++ name behind "undefined symbol: _ZN…", which nobody can read as it is.
std::string readable(const std::string& message) {
  constexpr std::string_view kUndefined = "undefined symbol: ";
  const std::size_t found = message.find(kUndefined);
  if (found == std::string::npos) return message;
  const std::size_t begin = found + kUndefined.size();
  const std::string symbol = message.substr(begin, message.find_first_of(" \n,)", begin) - begin);
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free);
  return fmt::format("it needs {}, which neither ddprun nor libtorch {} has; build it against these",
                     status == 0 ? name.get() : symbol, TORCH_VERSION);
}

/// How many libtorch_cpu this process has: with two, each has its own tensors and generators.
int count_libtorch() {
  int count = 0;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        if (std::strstr(info->dlpi_name, "libtorch_cpu.so") != nullptr) ++*static_cast<int*>(data);
        return 0;
      },
      &count);
  return count;
}

const plugin::Record& open(const std::string& path) {
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) refuse(path, "cannot be loaded: " + readable(::dlerror()));
  if (const int count = count_libtorch(); count != 1)
    refuse(path,
           fmt::format("it brings a libtorch of its own, so there are {}; link it to ddprun::ddprun alone",
                       count));
  using RecordFunction = const plugin::Record* (*)();
  const auto record = reinterpret_cast<RecordFunction>(::dlsym(library, kRecord));
  if (record == nullptr) {
    refuse(path,
           "is no plug-in of ddprun: it registers nothing (DDPRUN_REGISTER_MODEL, _DATA or _TASK of "
           "ddprun/trainer/plugin.h)");
  }
  return *record();
}

void add(const plugin::Node& node, const std::string& path, JobParts& parts) {
  constexpr bool kIsPlugins = true;
  const std::string about = "of plug-in " + path;
  switch (node.kind) {
    case plugin::Kind::kModel:
      parts.models.add(node.name, about, node.make_model, kIsPlugins);
      break;
    case plugin::Kind::kData:
      parts.data.add(node.name, about, node.make_data, kIsPlugins);
      break;
    case plugin::Kind::kTask:
      parts.tasks.add(node.name, about, node.make_task, kIsPlugins);
      break;
  }
}

constexpr std::int64_t major_abi(std::int64_t abi) { return abi / 1000; }

}  // namespace

std::string plugin_misfit(const plugin::Record& record) {
  const plugin::Record own = DDPRUN_PLUGIN_RECORD(nullptr);
  if (record.interface != own.interface)
    return fmt::format(
        "was built against a ddprun whose plug-in interface is {}, and this one's is {}; build it again",
        record.interface, own.interface);
  if (std::string_view(record.torch_version) != own.torch_version)
    return fmt::format("was built against libtorch {}, and this ddprun against {}; build it again",
                       record.torch_version, own.torch_version);
  if (std::string_view(record.ddprun_version) != own.ddprun_version)
    return fmt::format("was built against ddprun {}, and this one is {}; build it again",
                       record.ddprun_version, own.ddprun_version);
  const auto misfit = [](std::string_view what, std::int64_t theirs, std::int64_t mine) {
    return fmt::format("was built with {}={}, and this ddprun with {}; build it with the same", what, theirs,
                       mine);
  };
  if (record.cxx11_abi != own.cxx11_abi)
    return misfit("_GLIBCXX_USE_CXX11_ABI", record.cxx11_abi, own.cxx11_abi);
  if (major_abi(record.compiler_abi) != major_abi(own.compiler_abi))
    return misfit("__GXX_ABI_VERSION", record.compiler_abi, own.compiler_abi);
  if (record.glibcxx_debug != own.glibcxx_debug)
    return misfit("_GLIBCXX_DEBUG", record.glibcxx_debug, own.glibcxx_debug);
  return "";
}

void load_plugins(const Options& job, JobParts& parts) {
  std::set<const plugin::Record*> opened;
  std::vector<Options> objects{job.object("model"), job.object("data"), job.object("task")};
  if (job.has("evaluate")) {
    const Options evaluate = job.object("evaluate");
    const nlohmann::json named = nlohmann::json::parse(evaluate.to_json());
    for (const auto& [name, ignored] : named.items()) objects.push_back(evaluate.object(name));
  }
  for (const Options& object : objects) {
    if (!object.has("plugin")) continue;
    const std::string path = object.text("plugin");
    const plugin::Record& record = open(path);
    // One library may have several paths.
    if (!opened.insert(&record).second) continue;
    if (const std::string why = plugin_misfit(record); !why.empty()) refuse(path, why);
    for (const plugin::Node* node = record.first; node != nullptr; node = node->next) add(*node, path, parts);
  }
}

void refuse_type(const Options& object, const std::string& type) {
  throw Exception(
      ErrorCode::kConfig,
      fmt::format("{}/type: {} is ddprun's own and not of plug-in {}; remove /plugin, or name a type "
                  "that it brings",
                  object.pointer(), type, object.text("plugin")));
}

void refuse_nothing(const Options& object, const std::string& type) {
  throw Exception(
      ErrorCode::kConfig,
      fmt::format("{}: {} of plug-in {} made nothing; a model and a task are needed, and both splits "
                  "of a data source",
                  object.pointer(), type, object.text("plugin")));
}

void refuse_unread(const Options& options, const std::string& type) {
  const std::vector<std::string> unread = options.unread();
  if (unread.empty()) return;
  throw Exception(ErrorCode::kConfig, fmt::format("{}: {} has no option {}; correct or remove it",
                                                  options.pointer(), type, fmt::join(unread, ", ")));
}

}  // namespace ddprun::training
