#include "worker/runtime/libtorch/reducer_access.h"

namespace ddprun::runtime {
namespace {

struct ProtectedMembers : c10d::Reducer {
  static bool expects(const c10d::Reducer& reducer) {
    return reducer.*(&ProtectedMembers::expect_autograd_hooks_);
  }
  static void keep_buckets(c10d::Reducer& reducer) {
    reducer.*(&ProtectedMembers::has_rebuilt_bucket_) = true;
  }
};

std::unordered_map<size_t, std::vector<at::Tensor>>& remembered_parameters(c10d::Reducer& reducer);

// An explicit instantiation may name what is private.
template <auto Member>
struct PrivateMember {
  friend std::unordered_map<size_t, std::vector<at::Tensor>>& remembered_parameters(c10d::Reducer& reducer) {
    return reducer.*Member;
  }
};
template struct PrivateMember<&c10d::Reducer::cached_variables_for_bucket_>;

}  // namespace

bool expects_gradients(const c10d::Reducer& reducer) { return ProtectedMembers::expects(reducer); }

void keep_buckets(c10d::Reducer& reducer) { ProtectedMembers::keep_buckets(reducer); }

void forget_parameters_of_buckets(c10d::Reducer& reducer) { remembered_parameters(reducer).clear(); }

}  // namespace ddprun::runtime
