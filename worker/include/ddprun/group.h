#pragma once

#include <ddprun/init.h>

#include <utility>

namespace ddprun {

/// The ranks that take part in a collective: what every function of collectives.h takes first. A Context
/// converts to the group of all ranks, a c10d process group to itself.
class Group {
 public:
  Group(const Context& context) : process_group_(context.process_group()) {}  // NOLINT: meant to convert
  Group(c10::intrusive_ptr<c10d::ProcessGroup> process_group)                 // NOLINT: meant to convert
      : process_group_(std::move(process_group)) {}

  [[nodiscard]] int rank() const { return process_group_->getRank(); }
  [[nodiscard]] int size() const { return process_group_->getSize(); }
  [[nodiscard]] const c10::intrusive_ptr<c10d::ProcessGroup>& process_group() const { return process_group_; }

 private:
  c10::intrusive_ptr<c10d::ProcessGroup> process_group_;
};

}  // namespace ddprun
