#pragma once

#include "rendezvous/base/result.h"
#include <ddprun/pt_value.h>

#include <string>
#include <vector>

namespace ddprun::runtime {

/// A value as torch.save's data.pkl (pickle protocol 2), and the contiguous CPU tensors it refers to: tensor
/// i is the content of the record data/<i>.
struct Pickled {
  std::string bytes;
  std::vector<at::Tensor> storages;
};

/// Errors  kConfig: a tensor of a type that cannot be stored (sparse, quantized …), or a text that is no UTF-8, which
///         Python cannot open.
Result<Pickled> pickle(const PtValue& value);

}  // namespace ddprun::runtime
