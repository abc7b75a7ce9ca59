#pragma once

#include "rendezvous/base/result.h"
#include "worker/runtime/checkpoint/kept_memory.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ddprun::runtime {

/// A file of memory that somebody else keeps, in which tensors of this process live: what it leaves when it is killed
/// is what they hold, and nobody has had to copy it. Whether they were whole, a KeptFile says that refers to them.
class KeptTensors {
 public:
  /// Errors  as KeptMemory's.
  static Result<KeptTensors> open(const std::string& path);

  /// Moves the memory of these tensors here, those that are not here yet, where it stays as long as any of them lives.
  /// Whoever shares it, as a view or under another name, shares it on; addresses of before are of no use any more. What
  /// a process before this one has left is lost with the first of them. Small ones stay where they are. Tensors on the
  /// CPU, and not while something computes on them.
  /// Errors  kOs: there is no memory; nothing has moved.
  Result<void> adopt(const std::vector<at::Tensor>& tensors);

  /// Whether adopt() would move it.
  [[nodiscard]] bool would_adopt(const at::Tensor& tensor) const;

  /// Moves a tensor's memory back to this process, if it is here.
  void release(const at::Tensor& tensor);

  /// Where memory that a tensor begins with is in the file; nullopt: it is not here.
  [[nodiscard]] std::optional<std::uint64_t> place_of(const void* data) const;

  /// The file, as this process or one before has left it. Errors: kOs.
  [[nodiscard]] Result<KeptMapping> bytes() const { return memory_.map_all(); }

 private:
  explicit KeptTensors(KeptMemory memory) : memory_(std::move(memory)) {}

  KeptMemory memory_;
  std::uint64_t end_ = 0;  ///< of what this process has put there
  std::unordered_map<const void*, std::uint64_t> places_;
  std::vector<std::shared_ptr<KeptMapping>> parts_;  ///< so that no address of places_ is another's
};

}  // namespace ddprun::runtime
