#pragma once

#include <ddprun/collectives.h>

#include <limits>
#include <string_view>

namespace ddprun::runtime {

/// What `group`'s backend for `tensor` is to be told.
c10d::ReduceOp to_c10d(const Group& group, const at::Tensor& tensor, const ReduceOp& op);

/// For backends that have no PREMUL_SUM: multiplies `tensor` itself, or gives a multiplied copy, so that a
/// sum does the rest. Nothing where the backend or the operation needs none.
void scale_in_place(const Group& group, at::Tensor& tensor, const ReduceOp& op);
at::Tensor scaled(const Group& group, const at::Tensor& tensor, const ReduceOp& op);

/// Of the messages that an all-to-all over gloo is made of: no message of a user may have it.
constexpr int kAllToAllTag = std::numeric_limits<int>::max();
/// Throws kConfig, beginning with `what`, unless messages may have this tag.
void check_tag(int tag, std::string_view what);

/// Throws kConfig, beginning with `what`, unless `rank` is one of the group's.
void check_rank(const Group& group, int rank, std::string_view what);

}  // namespace ddprun::runtime
