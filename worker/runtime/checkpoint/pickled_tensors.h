#pragma once

#include "worker/runtime/checkpoint/pickle_node.h"
#include "worker/runtime/checkpoint/unpickle.h"

#include <map>
#include <string>

namespace ddprun::runtime::pickled {

/// Makes the tensors of a data.pkl of what it says of them, which may be anything.
/// Errors  Failure: that is wrong, and what StorageReader says.
class Tensors {
 public:
  /// Both outlive it.
  Tensors(const StorageReader& read_storage, Budget& budget) : read_storage_(read_storage), budget_(budget) {}

  /// ('storage', torch.FloatStorage, '0', 'cpu', numel): read once.
  Storage storage_of(Node* description);
  /// (storage, offset, size, stride, requires_grad, backward hooks[, metadata])
  at::Tensor rebuild(const std::vector<Node*>& arguments);
  /// numpy's: (version, sizes, type, in Fortran's order, bytes)
  at::Tensor array_of(Node* state);

 private:
  at::Tensor view_of_storage(const std::vector<Node*>& arguments);

  const StorageReader& read_storage_;
  Budget& budget_;
  std::map<std::string, at::Tensor> storages_;
};

}  // namespace ddprun::runtime::pickled
