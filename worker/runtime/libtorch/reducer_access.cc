#include "worker/runtime/libtorch/reducer_access.h"

namespace ddprun::runtime {
namespace {

struct ProtectedMembers : c10d::Reducer {
  static bool expects(const c10d::Reducer& reducer) {
    return reducer.*(&ProtectedMembers::expect_autograd_hooks_);
  }
  static bool has_rebuilt_buckets(const c10d::Reducer& reducer) {
    return reducer.*(&ProtectedMembers::has_rebuilt_bucket_);
  }
  static void set_rebuilt_buckets(c10d::Reducer& reducer, bool value) {
    reducer.*(&ProtectedMembers::has_rebuilt_bucket_) = value;
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

bool keeps_buckets(const c10d::Reducer& reducer) { return ProtectedMembers::has_rebuilt_buckets(reducer); }

void keep_buckets(c10d::Reducer& reducer, bool on) { ProtectedMembers::set_rebuilt_buckets(reducer, on); }

void forget_parameters_of_buckets(c10d::Reducer& reducer) { remembered_parameters(reducer).clear(); }

}  // namespace ddprun::runtime
