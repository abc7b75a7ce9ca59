#pragma once

#include <ddprun/trainer/plugin_record.h>

/// A shared library that brings models, data sources and tasks of its own for job files:
///
///     #include <ddprun/trainer/plugin.h>
///
///     class MyNet final : public ddprun::Model {
///      public:
///       MyNet(std::int64_t classes, std::int64_t width);
///       at::Tensor forward(at::Tensor input) override;
///     };
///
///     std::shared_ptr<ddprun::Model> make_my_net(const ddprun::Options& options,
///                                                const ddprun::DataShape& data) {
///       return std::make_shared<MyNet>(data.classes, options.integer("width", 64));
///     }
///     DDPRUN_REGISTER_MODEL("my_net", make_my_net)
///
/// It is built as a MODULE that links ddprun::ddprun, and named in a job file:
///
///     "model": {"plugin": "libmine.so", "type": "my_net", "options": {"width": 32}}
///
/// An option that the factory does not ask for is refused as mistyped, so it asks for all it knows, each with
/// its default. The library is never closed. It must be built against the ddprun and the libtorch that open
/// it, without _GLIBCXX_DEBUG where they are: anything else is refused with what both were built with.

/// The factory is a function `std::shared_ptr<Model>(const Options&, const DataShape&)`.
#define DDPRUN_REGISTER_MODEL(name, factory) DDPRUN_PLUGIN_NODE(kModel, name, .make_model = (factory))
/// The factory is a function `DataSplits(const Options&, std::uint64_t seed)`.
#define DDPRUN_REGISTER_DATA(name, factory) DDPRUN_PLUGIN_NODE(kData, name, .make_data = (factory))
/// The factory is a function `std::unique_ptr<Task>(const Options&, const DataShape&)`.
#define DDPRUN_REGISTER_TASK(name, factory) DDPRUN_PLUGIN_NODE(kTask, name, .make_task = (factory))

namespace ddprun::plugin {

/// Of this library alone: hidden, so that two plug-ins do not share one.
__attribute__((visibility("hidden"))) inline const Node* list = nullptr;

struct __attribute__((visibility("hidden"))) Link {
  explicit Link(Node& node) {
    node.next = list;
    list = &node;
  }
};

}  // namespace ddprun::plugin

/// What the trainer looks for in a library that it opens.
extern "C" __attribute__((weak, used, visibility("default"))) const ::ddprun::plugin::Record*
ddprun_plugin_record() {
  static const ::ddprun::plugin::Record record = DDPRUN_PLUGIN_RECORD(::ddprun::plugin::list);
  return &record;
}

#define DDPRUN_PLUGIN_JOIN_AGAIN(a, b) a##b
#define DDPRUN_PLUGIN_JOIN(a, b) DDPRUN_PLUGIN_JOIN_AGAIN(a, b)
#define DDPRUN_PLUGIN_NODE(which, type_name, ...)                                  \
  static ::ddprun::plugin::Node DDPRUN_PLUGIN_JOIN(ddprun_plugin_node_, __LINE__){ \
      .kind = ::ddprun::plugin::Kind::which, .name = (type_name), __VA_ARGS__};    \
  static const ::ddprun::plugin::Link DDPRUN_PLUGIN_JOIN(                          \
      ddprun_plugin_link_, __LINE__)(DDPRUN_PLUGIN_JOIN(ddprun_plugin_node_, __LINE__));
