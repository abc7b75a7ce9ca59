#include <ddprun/collectives.h>
#include <ddprun/exception.h>
#include <ddprun/join.h>

#include <fmt/format.h>
#include <torch/types.h>

#include <cstdio>
#include <vector>

namespace ddprun {
namespace {

constexpr int kSkewWorthAWarning = 1000;

using Joinables = std::vector<std::reference_wrapper<Joinable>>;

double sum_of_ranks(const Joinable& joinable, double mine) {
  const at::Tensor value = torch::full({1}, mine, at::TensorOptions(joinable.join_device()));
  all_reduce(joinable.join_group(), value);
  return value.item<double>();
}

void check_groups(const Joinables& joinables) {
  if (joinables.empty()) throw Exception(ErrorCode::kConfig, "join: nothing to join is given");
  const auto group = joinables.front().get().join_group().process_group();
  for (const Joinable& joinable : joinables) {
    if (joinable.join_group().process_group() == group) continue;
    throw Exception(ErrorCode::kConfig, "join: the joinables have different groups; give all of them one");
  }
}

void shadow_until_all_joined(const Joinables& joinables, const JoinOptions& options) {
  Joinable& first = joinables.front();
  const int rank = first.join_group().rank();
  bool is_last = true;
  for (int steps = 0; sum_of_ranks(first, 0) != 0; ++steps) {
    if (options.throw_on_early_termination) {
      sum_of_ranks(first, 1);
      throw Exception(ErrorCode::kConfig,
                      fmt::format("join: rank {} has no more input, and was asked to throw then", rank));
    }
    if (steps == kSkewWorthAWarning) {
      fmt::print(stderr,
                 "ddprun: rank {} ran out of input {} steps before the others; a better sharding would train "
                 "faster\n",
                 rank, steps);
    }
    for (Joinable& joinable : joinables) joinable.shadow_step();
    is_last = false;
  }
  for (Joinable& joinable : joinables) joinable.all_joined(is_last);
}

}  // namespace

// Puts the joinables into a join for as long as it lives.
class JoinScope {
 public:
  JoinScope(const Joinables& joinables, const JoinOptions& options) : joinables_(joinables) {
    for (Joinable& joinable : joinables_) {
      joinable.options_ = std::make_unique<const JoinOptions>(options);
      joinable.is_first_ = &joinable == &joinables_.front().get();
    }
  }
  ~JoinScope() {
    for (Joinable& joinable : joinables_) joinable.options_.reset();
  }
  JoinScope(const JoinScope&) = delete;
  JoinScope& operator=(const JoinScope&) = delete;

 private:
  const Joinables& joinables_;
};

c10::intrusive_ptr<c10d::Work> Joinable::notify_join() {
  if (options_ == nullptr || !is_first_) return nullptr;
  std::vector<at::Tensor> ones = {torch::ones({1}, at::TensorOptions(join_device()))};
  auto work = join_group().process_group()->allreduce(ones);
  if (options_->throw_on_early_termination && sum_of_ranks(*this, 0) != 0) {
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("join: at least one rank has no more input, and was asked to throw then; rank "
                    "{} still had some",
                    join_group().rank()));
  }
  return work;
}

void join(std::initializer_list<std::reference_wrapper<Joinable>> given, const std::function<void()>& body,
          const JoinOptions& options) {
  const Joinables joinables = given;
  check_groups(joinables);
  if (!options.enable) return body();
  for (Joinable& joinable : joinables) joinable.join_begins(options);
  const JoinScope scope(joinables, options);
  body();
  shadow_until_all_joined(joinables, options);
}

}  // namespace ddprun
