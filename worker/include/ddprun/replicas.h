#pragma once

#include <ddprun/call_forward.h>
#include <ddprun/exception.h>
#include <ddprun/module_view.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

/// What DataParallel and DataParallelCriterion are made of; programs include data_parallel.h.
namespace ddprun::runtime {

/// How a batch is cut along one dimension: as torch.chunk does, into equal pieces and a smaller last one, and
/// into fewer than asked where the batch is too small.
class Cut {
 public:
  Cut(std::string who, std::int64_t dim, std::size_t parts);

  /// To be shown every tensor before the first piece is asked for. Throws Exception kConfig where a tensor
  /// lacks the dimension, or is longer or shorter along it than the ones before.
  void see(const at::Tensor& tensor);

  [[nodiscard]] std::size_t pieces() const;  ///< 1 where there was nothing to cut
  /// Throws Exception kConfig unless there are so many.
  void expect_pieces(std::size_t expected) const;
  /// What part of the batch a piece is, from 0 to 1.
  [[nodiscard]] double share_of(std::size_t piece) const;

  /// A view on the same device, else a copy; gradients flow back. A tensor without dimensions is not cut.
  [[nodiscard]] at::Tensor piece(const at::Tensor& tensor, std::size_t piece, const at::Device& device) const;

 private:
  [[nodiscard]] std::int64_t step() const;
  [[nodiscard]] std::int64_t length_of(std::size_t piece) const;

  std::string who_;
  std::int64_t dim_;
  std::size_t parts_;
  std::optional<std::int64_t> length_;
};

/// Column by column, the tensors of all replicas behind one another on `device`; those without dimensions
/// become a vector. Throws Exception kConfig where the replicas gave different numbers of tensors.
std::vector<at::Tensor> join_outputs(const std::vector<std::vector<at::Tensor>>& by_replica, std::int64_t dim,
                                     const at::Device& device);

/// The sum of the losses, each weighted by its piece's share of the batch if `weighted`, on `device`.
at::Tensor join_losses(const std::vector<at::Tensor>& losses, const Cut& cut, bool weighted,
                       const at::Device& device);

/// Throws Exception kConfig, with names, unless every tensor of the module is on `device`.
void check_home(const torch::nn::Module& module, const at::Device& device, const std::string& who);

/// Ties a copy of a module to the original: takes over its values, and sends gradients back.
class ReplicaLink {
 public:
  /// Throws Exception kConfig, naming the first difference, unless both have the same tensors.
  ReplicaLink(torch::nn::Module& original, torch::nn::Module& replica, const std::string& who);
  ~ReplicaLink();
  ReplicaLink(const ReplicaLink&) = delete;
  ReplicaLink& operator=(const ReplicaLink&) = delete;

  /// True while something still holds tensors of the replica, as the graph of a forward without its backward
  /// does: new values would falsify it.
  [[nodiscard]] bool is_held() const;
  /// False once the original's tensors are no longer of the replica's shapes and dtypes.
  [[nodiscard]] bool fits(const torch::nn::Module& original) const;

 private:
  friend void refresh(torch::nn::Module& original, const std::vector<ReplicaLink*>& links);
  struct State;
  std::unique_ptr<State> state_;
};

/// Gives all replicas the original's values, modes (training or not) and requires_grad. With gradients on, a
/// backward through the replicas adds to the original's gradients, in one order always.
void refresh(torch::nn::Module& original, const std::vector<ReplicaLink*>& links);

/// Runs `clone`, a call of module.clone(). Throws Exception kConfig, with what to do, if it fails. Leaves the
/// CPU's random numbers as they were, though clone() initialises the copy.
void clone_quietly(const torch::nn::Module& module, const std::string& who,
                   const std::function<void()>& clone);

/// Threads that wait between forwards, one for each replica but the first.
class ReplicaThreads {
 public:
  explicit ReplicaThreads(std::string who);
  ~ReplicaThreads();
  ReplicaThreads(const ReplicaThreads&) = delete;
  ReplicaThreads& operator=(const ReplicaThreads&) = delete;

  /// Runs task(i) for each device with that device and the caller's modes (gradients, autocast, stream); the
  /// first on the calling thread. Returns when all have ended. The first that threw is rethrown with replica
  /// and device in front of its message: an Exception with the same code, or a std::runtime_error; the
  /// original is nested in it.
  void run(const std::vector<at::Device>& devices, const std::function<void(std::size_t replica)>& task);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A module and its replicas by position. The first position is the module itself.
template <class Module>
class Replicas {
 public:
  using MakeReplica = std::function<Module()>;

  Replicas(Module module, MakeReplica make, std::string who)
      : module_(std::move(module)), make_(std::move(make)), who_(std::move(who)) {}

  /// One for each device, with the module's values. They stay valid until the next call.
  std::vector<Module*> get(const std::vector<at::Device>& devices) {
    std::vector<Module*> replicas = {&module_};
    std::vector<ReplicaLink*> links;
    if (pools_.size() < devices.size()) pools_.resize(devices.size());
    for (std::size_t i = 1; i < devices.size(); ++i) {
      Linked& linked = reusable(i, devices[i]);
      replicas.push_back(&linked.module);
      links.push_back(linked.link.get());
    }
    if (!links.empty()) refresh(module_of(module_), links);
    return replicas;
  }

  [[nodiscard]] Module& module() { return module_; }

 private:
  struct Linked {
    Module module;
    at::Device device;
    std::unique_ptr<ReplicaLink> link;
  };

  Linked& reusable(std::size_t position, const at::Device& device) {
    auto& pool = pools_[position];
    std::erase_if(pool, [&](const auto& linked) {
      return !linked->link->is_held() &&
             (linked->device != device || !linked->link->fits(module_of(module_)));
    });
    for (const auto& linked : pool) {
      if (!linked->link->is_held()) return *linked;
    }
    Module copy = make(device);
    auto link = std::make_unique<ReplicaLink>(module_of(module_), module_of(copy), who_);
    pool.push_back(std::make_unique<Linked>(Linked{std::move(copy), device, std::move(link)}));
    return *pool.back();
  }

  Module make(const at::Device& device) {
    if (make_) {
      Module copy = make_();
      module_of(copy).to(device);
      return copy;
    }
    std::optional<Module> copy;
    clone_quietly(module_of(module_), who_, [&] {
      if constexpr (std::is_same_v<Module, torch::nn::AnyModule>) {
        copy = module_.clone(device);
      } else {
        using Impl = std::remove_cvref_t<decltype(*module_)>;
        copy = Module(std::dynamic_pointer_cast<Impl>(module_->clone(device)));
      }
    });
    return std::move(*copy);
  }

  Module module_;
  MakeReplica make_;
  std::string who_;
  std::vector<std::vector<std::unique_ptr<Linked>>> pools_;  // by position; the first is empty
};

}  // namespace ddprun::runtime
