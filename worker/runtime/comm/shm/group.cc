#include "worker/runtime/comm/shm/group.h"

#include "rendezvous/base/check.h"
#include "rendezvous/base/utf8.h"
#include "worker/runtime/comm/shm/futex.h"
#include "worker/runtime/comm/shm/gate_only.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>

namespace ddprun::runtime::shm {
namespace {

/// "rank 1", "ranks 1 and 3", "ranks 1, 2 and 3"
std::string name_ranks(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  return fmt::format("ranks {} and {}", fmt::join(ranks.begin(), ranks.end() - 1, ", "), ranks.back());
}

std::string name_processes(const std::vector<int>& ranks, const Segment& segment) {
  std::vector<std::string> names;
  names.reserve(ranks.size());
  for (const int rank : ranks)
    names.push_back(fmt::format("rank {} (pid {})", rank, segment.rank_state(rank).pid));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Group::Group(std::shared_ptr<Segment> segment, int rank)
    : segment_(std::move(segment)), rank_(rank), size_(segment_->shape().size), barrier_(segment_, rank) {
  DDPRUN_CHECK(rank >= 0 && rank < size_, "the rank is in the group");
}

Result<std::unique_ptr<Group>> Group::join(std::shared_ptr<Segment> segment, int rank, Duration timeout) {
  auto self = this_process();
  if (!self) return self.error();
  std::unique_ptr<Group> group(new Group(std::move(segment), rank));
  RankState& state = group->segment_->rank_state(rank);
  state.pid = self->pid;
  state.start_time = self->start_time;
  state.state.store(RankState::kJoined, std::memory_order_release);
  GateOnly join;
  if (auto joined = group->run(join, timeout); !joined) return joined.error().with("cannot join the group");
  group->sequence_ = 0;  // no collective of the caller's
  return group;
}

Group::~Group() {
  segment_->rank_state(rank_).state.store(RankState::kLeft, std::memory_order_release);
  Barrier::wake_everyone(*segment_);
}

Result<void> Group::run(Collective& collective, Duration timeout) {
  start(collective, timeout);
  auto is_open = wait_at_gate(Duration::max());
  if (!is_open) return is_open.error();
  return finish(collective);
}

void Group::start(Collective& collective, Duration timeout) {
  current_ = collective.describe();
  timeout_ = timeout;
  deadline_ = after(timeout);
  ++sequence_;
  if (end_) return;  // not arriving tells the ranks that do not know yet
  gate_ = barrier_.ticket() + 1;
  Post& post = barrier_.next_post();
  post.key = current_.key();
  post.count = current_.count;
  post.shape_hash = current_.shape_hash;
  post.flags = 0;
  segment_->description(rank_, gate_) = current_;
  collective.contribute(*this, post);
  barrier_.arrive();
}

Result<bool> Group::wait_at_gate(Duration patience) {
  if (end_)
    return Error(end_->code(), fmt::format("{}: the group has ended: {}", operation(), end_->message()));
  const WaitEnd end = barrier_.wait(deadline_, patience);
  if (end == WaitEnd::kOpen) return true;
  if (end == WaitEnd::kGaveUp) return false;
  return explain(end);
}

Result<void> Group::finish(Collective& collective) {
  auto done = check_agreement();
  if (done) done = collective.complete(*this);
  if (!done) fail(done.error());
  return done;
}

Result<void> Group::barrier() {
  barrier_.arrive();
  const WaitEnd end = barrier_.wait(deadline_);
  if (end == WaitEnd::kOpen) return ok();
  return explain(end);
}

Result<void> Group::check_agreement() {
  const Post& mine = segment_->post(rank_, gate_);
  bool agree = true;
  for (int peer = 0; peer < size_; ++peer) {
    const Post& post = segment_->post(peer, gate_);
    agree = agree && post.key == mine.key && post.count == mine.count && post.shape_hash == mine.shape_hash;
  }
  if (agree) return ok();
  // Every rank tells the same story: of rank 0 and of the first rank that differs from it.
  const auto differs_from_first = [&](int peer) {
    const Post& first = segment_->post(0, gate_);
    const Post& post = segment_->post(peer, gate_);
    return post.key != first.key || post.count != first.count || post.shape_hash != first.shape_hash;
  };
  int other = 1;
  while (other + 1 < size_ && !differs_from_first(other)) ++other;
  return Error(
      ErrorCode::kConfig,
      fmt::format("operation {} differs between ranks: rank 0 called {}, rank {} called {}; all ranks must "
                  "call the same collectives in the same order",
                  sequence_, segment_->description(0, gate_).to_text(), other,
                  segment_->description(other, gate_).to_text()));
}

std::string Group::operation() const {
  return fmt::format("{} (operation {})", current_.to_text(), sequence_);
}

Error Group::explain(WaitEnd end) {
  Error error;
  if (end == WaitEnd::kFailed) end_ = failure_of_group();
  if (end == WaitEnd::kAborted) {
    end_ = Error(ErrorCode::kPeerLost, fmt::format("{}: aborted by rank {} itself", operation(), rank_));
  }
  if (end_) return *end_;
  const std::vector<int> missing = barrier_.missing();
  if (end == WaitEnd::kPeerDied) {
    error = Error(ErrorCode::kPeerLost,
                  fmt::format("{}: {} died while rank {} waited for it; look for its last output",
                              operation(), name_processes(barrier_.dead(), *segment_), rank_));
  } else if (end == WaitEnd::kPeerLeft) {
    error = Error(ErrorCode::kPeerLost,
                  fmt::format("{}: {} has left the group while rank {} waited for it; all ranks must "
                              "call the same collectives before they end",
                              operation(), name_processes(barrier_.left(), *segment_), rank_));
  } else {
    error = Error(
        ErrorCode::kTimeout,
        missing.empty()
            ? fmt::format("{}: timed out after {:.1f} s on rank {}", operation(), to_seconds(timeout_), rank_)
            : fmt::format("{}: timed out after {:.1f} s on rank {}: {} of {} did not come; are they slower "
                          "than the timeout, or in another collective?",
                          operation(), to_seconds(timeout_), rank_, name_ranks(missing), size_));
  }
  // Another rank may have told why since the wait looked, and have left or died only then.
  end_ = tell(error) ? error : failure_of_group();
  return *end_;
}

void Group::fail(const Error& error) {
  if (!end_) end_ = error;
  tell(error);
}

bool Group::tell(const Error& error) {
  Failure failure{};
  failure.code = static_cast<std::int32_t>(error.code());
  failure.barrier = barrier_.first_not_passed();
  const std::string_view text = cut_at_character(error.message(), Failure::kTextBytes - 1);
  std::memcpy(failure.text.data(), text.data(), text.size());
  const bool is_first = segment_->end_group(rank_, failure);
  if (is_first) Barrier::wake_everyone(*segment_);
  return is_first;
}

Error Group::failure_of_group() const {
  const Failure& failure = *segment_->failure();
  return Error(static_cast<ErrorCode>(failure.code),
               fmt::format("{}: the group has ended: {}", operation(), failure.text.data()));
}

}  // namespace ddprun::runtime::shm
