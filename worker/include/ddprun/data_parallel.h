#pragma once

#include <ddprun/call_forward.h>
#include <ddprun/exception.h>
#include <ddprun/replicas.h>
#include <ddprun/visit_tensors.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace ddprun {

/// Every GPU this process may use, or one CPU where there is none.
std::vector<at::Device> all_devices();

/// What the replicas gave: one output per piece of the batch, each still on its device.
template <class Output>
struct Scattered {
  std::vector<Output> outputs;
  std::vector<at::Device> devices;
};

template <class Module>
struct DataParallelOptions {
  /// Where `forward` puts the whole output. Unset: the first device.
  std::optional<at::Device> output_device;
  /// The dimension of the batch, in inputs and outputs.
  std::int64_t dim = 0;
  /// Makes another module of the same structure; its values do not matter. Unset: the module's clone() does,
  /// which a module has that derives from torch::nn::Cloneable and makes everything in reset().
  std::function<Module()> make_replica;
};

/// Data parallelism inside one process: forward cuts the batch, runs a replica of the module on each device
/// in a thread of its own, and puts the outputs together on one device; backward through them leaves the
/// gradient of the whole batch in the module itself. One optimizer, no process group, no launcher.
///
///     ddprun::DataParallel parallel(model, ddprun::all_devices());  // model: on the first of them
///     loss_of(parallel(input), target).backward();  // call parallel, not model
///
/// DistributedDataParallel is faster: here every forward copies the parameters to all devices, and one
/// process feeds them all.
///
/// Shapes    every input tensor, also in vectors, tuples, maps (see visit_tensors.h), is cut along `dim` as
///           torch.chunk does; they must be equally long. A batch of 5 on 4 devices makes pieces of 2, 2, 1:
///           the fourth device idles. A tensor without dimensions, and anything else, goes to all devices
///           whole. Outputs are put together along `dim`; those without dimensions become a vector. Any
///           dtype.
/// Device    the module is on the first device. A device may be listed several times, so that `cpu` twice is
///           two replicas; their forwards run in parallel, CPU backward is serial.
/// Replicas  the first is the module itself: what its forward does to buffers (running statistics) stays,
///           what the others' do is lost, as in Python. The others are made when first needed and kept;
///           members that are not tensors, submodules or the training mode are as they were then. Replicas
///           on the same CPU that draw random numbers (dropout) take them from one generator, in no fixed
///           order.
/// Errors    Exception kConfig: no devices, tensors of the module elsewhere than on the first one, inputs
///           that cannot be cut, replicas unlike the module. What a replica throws comes out of forward with
///           the replica and its device in front of its message: as an Exception if it was one, else as a
///           std::runtime_error, with the original nested in it.
/// Threads   one thread calls forward.
template <class Module>
class DataParallel {
 public:
  explicit DataParallel(Module module, std::vector<at::Device> devices = all_devices(),
                        DataParallelOptions<Module> options = {})
      : devices_(std::move(devices)),
        dim_(options.dim),
        replicas_(std::move(module), std::move(options.make_replica), kName),
        threads_(kName) {
    static_assert(runtime::holds_a_module<Module>(), "DataParallel wants a holder, shared_ptr or AnyModule");
    if (devices_.empty()) {
      throw Exception(ErrorCode::kConfig, "DataParallel: no devices are given; give at least one");
    }
    runtime::check_home(runtime::module_of(replicas_.module()), devices_.front(), kName);
    output_device_ = options.output_device.value_or(devices_.front());
  }

  /// The output for the whole batch, on the output device.
  template <class... Args>
  auto forward(const Args&... args) {
    return gather(forward_scattered(args...));
  }

  template <class... Args>
  auto operator()(const Args&... args) {
    return forward(args...);
  }

  /// The outputs where they are: what DataParallelCriterion takes, so that no device holds them all.
  template <class... Args>
  auto forward_scattered(const Args&... args) {
    using Output = decltype(runtime::call_forward(std::declval<Module&>(), std::declval<Args&>()...));
    runtime::Cut cut(kName, dim_, devices_.size());
    std::tuple<Args...> whole(args...);
    visit_tensors(whole, [&](at::Tensor& tensor) { cut.see(tensor); });
    const std::vector<at::Device> devices(devices_.begin(),
                                          devices_.begin() + static_cast<std::ptrdiff_t>(cut.pieces()));
    std::vector<std::tuple<Args...>> inputs(devices.size(), whole);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      visit_tensors(inputs[i], [&](at::Tensor& tensor) { tensor = cut.piece(tensor, i, devices[i]); });
    }
    const std::vector<Module*> replicas = replicas_.get(devices);
    std::vector<std::optional<Output>> outputs(devices.size());
    threads_.run(devices, [&](std::size_t i) {
      outputs[i] =
          std::apply([&](auto&... mine) { return runtime::call_forward(*replicas[i], mine...); }, inputs[i]);
    });
    Scattered<Output> scattered{.outputs = {}, .devices = devices};
    for (std::optional<Output>& output : outputs) scattered.outputs.push_back(std::move(*output));
    return scattered;
  }

  /// Puts scattered outputs together. Throws Exception kConfig where replicas gave different numbers of
  /// tensors. What is no tensor is the first replica's.
  template <class Output>
  Output gather(Scattered<Output> scattered) const {
    std::vector<std::vector<at::Tensor>> columns;
    for (Output& output : scattered.outputs) {
      std::vector<at::Tensor>& tensors = columns.emplace_back();
      visit_tensors(output, [&](at::Tensor& tensor) { tensors.push_back(tensor); });
    }
    const std::vector<at::Tensor> joined = runtime::join_outputs(columns, dim_, output_device_);
    std::size_t next = 0;
    visit_tensors(scattered.outputs.front(), [&](at::Tensor& tensor) { tensor = joined[next++]; });
    return std::move(scattered.outputs.front());
  }

  [[nodiscard]] const std::vector<at::Device>& devices() const { return devices_; }
  [[nodiscard]] const at::Device& output_device() const { return output_device_; }
  /// The module that an optimizer updates and a checkpoint saves.
  [[nodiscard]] Module& module() { return replicas_.module(); }

 private:
  static constexpr const char* kName = "DataParallel";

  std::vector<at::Device> devices_;
  at::Device output_device_{at::kCPU};
  std::int64_t dim_;
  runtime::Replicas<Module> replicas_;
  runtime::ReplicaThreads threads_;
};

}  // namespace ddprun
