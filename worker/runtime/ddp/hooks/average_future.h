#pragma once

#include <ddprun/group.h>

#include <ATen/core/ivalue.h>

namespace ddprun::runtime {

/// Divides `tensor` by the group's size, starts the all-reduce and promises the tensor. In place.
c10::intrusive_ptr<c10::ivalue::Future> average_async(const Group& group, at::Tensor tensor);

/// A promise kept already.
c10::intrusive_ptr<c10::ivalue::Future> completed(const at::Tensor& tensor);

}  // namespace ddprun::runtime
