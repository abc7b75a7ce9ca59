#include "worker/runtime/comm/shm/mailbox.h"

#include "worker/runtime/comm/shm/futex.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace ddprun::runtime::shm {
namespace {

using namespace std::chrono_literals;

/// The background thread's sleep when there is nothing to do; it is woken for work.
constexpr Duration kIdle = 1h;
/// Of a message that is dropped at its end; tags of users are not negative, and so smaller.
constexpr std::uint32_t kNobodysTag = UINT32_MAX;
/// How long a caller looks for the end of what it posted before the background thread takes over.
constexpr Duration kPatience = 20us;

std::span<std::byte> rest_of(std::byte* data, std::size_t bytes, std::size_t moved) {
  return {data + moved, bytes - moved};
}

template <class T>
std::span<std::byte> bytes_of_value(T& value) {
  return std::as_writable_bytes(std::span<T, 1>(&value, 1));
}

std::string name_receive(const Mailbox::Letter& letter) {
  const std::string from = letter.peer < 0 ? "any rank" : fmt::format("rank {}", letter.peer);
  return fmt::format("receive of {} bytes of {} from {} (tag {})", letter.bytes, to_string(letter.dtype),
                     from, letter.tag);
}

std::string name_send(const Mailbox::Letter& letter) {
  return fmt::format("send of {} bytes of {} to rank {} (tag {})", letter.bytes, to_string(letter.dtype),
                     letter.peer, letter.tag);
}

}  // namespace

Mailbox::Mailbox(std::shared_ptr<Segment> segment, int rank)
    : segment_(std::move(segment)),
      rank_(rank),
      size_(segment_->shape().size),
      sends_(static_cast<std::size_t>(size_)),
      incoming_(static_cast<std::size_t>(size_)),
      stored_(static_cast<std::size_t>(size_)),
      has_ring_(static_cast<std::size_t>(size_)),
      is_cut_off_(static_cast<std::size_t>(size_)),
      watch_(size_) {}

Mailbox::~Mailbox() {
  abort();
  if (thread_.joinable()) thread_.join();
}

void Mailbox::abort() {
  std::unique_lock lock(mutex_);
  is_stopping_ = true;
  fail_all(Error(ErrorCode::kPeerLost, "the group was shut down by this rank"));
  notify(rank_);
  flush(lock);
}

void Mailbox::send(const Letter& letter, Done done) {
  std::unique_lock lock(mutex_);
  const auto to = static_cast<std::size_t>(letter.peer);
  Pending pending{.letter = letter, .done = std::move(done), .deadline = after(letter.timeout)};
  if (!has_ring_[to]) {
    if (auto backed = segment_->reserve_channel(rank_, letter.peer); !backed) {
      finish(std::move(pending), backed, -1);
      return flush(lock);
    }
    has_ring_[to] = true;
  }
  submit(sends_[to], std::move(pending));
  flush(lock);
}

void Mailbox::receive(const Letter& letter, Done done) {
  std::unique_lock lock(mutex_);
  Pending pending{.letter = letter, .done = std::move(done), .deadline = after(letter.timeout)};
  if (!serve_from_stored(pending)) submit(receives_, std::move(pending));
  flush(lock);
}

void Mailbox::submit(std::list<Pending>& queue, Pending pending) {
  if (is_stopping_) {
    return finish(std::move(pending), Error(ErrorCode::kPeerLost, "the group was shut down by this rank"),
                  -1);
  }
  const std::size_t before = finished_.size();
  queue.push_back(std::move(pending));
  const TimePoint end = after(kPatience);
  do {
    progress();
  } while (finished_.size() == before && now() < end);
  if (!has_pending()) return;
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  notify(rank_);
}

bool Mailbox::has_pending() const {
  return !receives_.empty() ||
         std::any_of(sends_.begin(), sends_.end(), [](const auto& queue) { return !queue.empty(); }) ||
         std::any_of(incoming_.begin(), incoming_.end(),
                     [](const auto& message) { return message.target.has_value(); });
}

void Mailbox::notify(int peer) const {
  RankState& state = segment_->rank_state(peer);
  state.channel_event.fetch_add(1, std::memory_order_seq_cst);
  if (state.waits_for_channels.load(std::memory_order_seq_cst) > 0) futex_wake_all(state.channel_event);
}

void Mailbox::run() {
  RankState& self = segment_->rank_state(rank_);
  TimePoint watched = now();
  std::unique_lock lock(mutex_);
  while (!is_stopping_) {
    self.waits_for_channels.store(1, std::memory_order_seq_cst);
    const std::uint32_t seen = self.channel_event.load(std::memory_order_seq_cst);
    const bool has_moved = progress();
    if (const TimePoint time = now(); time - watched >= kWatchInterval) {
      watched = time;
      expire(time);
    }
    flush(lock);
    if (!has_moved && !is_stopping_) {
      const Duration at_most = has_pending() ? kWatchInterval : kIdle;
      lock.unlock();
      futex_wait(self.channel_event, seen, at_most);
      lock.lock();
    }
    self.waits_for_channels.store(0, std::memory_order_relaxed);
  }
}

void Mailbox::flush(std::unique_lock<std::mutex>& lock) {
  std::vector<Finished> finished;
  finished.swap(finished_);
  lock.unlock();
  for (const Finished& one : finished) one.done(one.result, one.source);
  lock.lock();
}

void Mailbox::finish(Pending&& pending, Result<void> result, int source) {
  finished_.push_back({std::move(pending.done), std::move(result), source});
}

bool Mailbox::progress() {
  bool has_moved = false;
  for (int peer = 0; peer < size_; ++peer) {
    has_moved = push(peer) || has_moved;
    has_moved = pull(peer) || has_moved;
  }
  return has_moved;
}

bool Mailbox::push(int to) {
  std::list<Pending>& queue = sends_[static_cast<std::size_t>(to)];
  if (queue.empty() || is_cut_off_[static_cast<std::size_t>(to)]) return false;
  Channel channel(*segment_, rank_, to);
  bool has_moved = false;
  while (!queue.empty()) {
    Pending& front = queue.front();
    if (!front.has_envelope) {
      if (channel.writable() < sizeof(Envelope)) break;
      Envelope envelope{front.letter.bytes, front.letter.tag, static_cast<std::uint32_t>(front.letter.dtype)};
      channel.write(bytes_of_value(envelope));
      front.has_envelope = true;
      has_moved = true;
    }
    const std::size_t written = channel.write(rest_of(front.letter.data, front.letter.bytes, front.moved));
    front.moved += written;
    has_moved = has_moved || written > 0;
    if (front.moved < front.letter.bytes) break;
    finish(std::move(front), ok(), -1);
    queue.pop_front();
  }
  if (has_moved) notify(to);
  return has_moved;
}

bool Mailbox::is_wanted(int from) const {
  const Incoming& incoming = incoming_[static_cast<std::size_t>(from)];
  if (incoming.target) return true;
  return std::any_of(receives_.begin(), receives_.end(), [from](const Pending& receive) {
    return receive.letter.peer < 0 || receive.letter.peer == from;
  });
}

bool Mailbox::pull(int from) {
  Incoming& incoming = incoming_[static_cast<std::size_t>(from)];
  Channel channel(*segment_, from, rank_);
  bool has_moved = false;
  while (is_wanted(from)) {
    if (!incoming.envelope && !read_envelope(from)) break;
    std::byte* const data = incoming.target ? incoming.target->letter.data : incoming.stash.data();
    const std::size_t taken = channel.read(rest_of(data, incoming.envelope->bytes, incoming.moved));
    incoming.moved += taken;
    has_moved = has_moved || taken > 0;
    if (incoming.moved < incoming.envelope->bytes) break;
    has_moved = true;
    end_message(from);
  }
  if (has_moved) notify(from);
  return has_moved;
}

bool Mailbox::read_envelope(int from) {
  Incoming& incoming = incoming_[static_cast<std::size_t>(from)];
  Channel channel(*segment_, from, rank_);
  if (channel.readable() < sizeof(Envelope)) return false;
  Envelope envelope{};
  channel.read(bytes_of_value(envelope));
  incoming.envelope = envelope;
  incoming.moved = 0;
  incoming.target = pop_receive_for(from, envelope.tag);
  if (incoming.target) {
    if (auto fits = check_fits(incoming.target->letter, envelope, from); !fits) {
      finish(std::move(*incoming.target), fits, from);
      incoming.target.reset();
      incoming.envelope->tag = kNobodysTag;  // nobody can ask for it: it is dropped at its end
    }
  }
  if (!incoming.target) incoming.stash.resize(envelope.bytes);
  return true;
}

void Mailbox::end_message(int from) {
  Incoming& incoming = incoming_[static_cast<std::size_t>(from)];
  const Envelope envelope = *incoming.envelope;
  incoming.envelope.reset();
  if (incoming.target) {
    finish(std::move(*incoming.target), ok(), from);
    incoming.target.reset();
    return;
  }
  std::vector<std::byte> data = std::move(incoming.stash);
  incoming.stash.clear();
  if (envelope.tag == kNobodysTag) return;
  stored_[static_cast<std::size_t>(from)].push_back({envelope, std::move(data)});
  // A receive may have been posted while the message came in.
  for (auto receive = receives_.begin(); receive != receives_.end(); ++receive) {
    if (serve_from_stored(*receive)) {
      receives_.erase(receive);
      return;
    }
  }
}

std::optional<Mailbox::Pending> Mailbox::pop_receive_for(int from, std::uint32_t tag) {
  const auto found = std::find_if(receives_.begin(), receives_.end(), [&](const Pending& receive) {
    return receive.letter.tag == tag && (receive.letter.peer < 0 || receive.letter.peer == from);
  });
  if (found == receives_.end()) return std::nullopt;
  std::optional<Pending> receive = std::move(*found);
  receives_.erase(found);
  return receive;
}

bool Mailbox::serve_from_stored(Pending& receive) {
  for (int from = 0; from < size_; ++from) {
    if (receive.letter.peer >= 0 && receive.letter.peer != from) continue;
    std::deque<Stored>& stored = stored_[static_cast<std::size_t>(from)];
    const auto found = std::find_if(stored.begin(), stored.end(), [&](const Stored& message) {
      return message.envelope.tag == receive.letter.tag;
    });
    if (found == stored.end()) continue;
    const Result<void> fits = check_fits(receive.letter, found->envelope, from);
    if (fits) std::copy(found->data.begin(), found->data.end(), receive.letter.data);
    stored.erase(found);
    finish(std::move(receive), fits, from);
    return true;
  }
  return false;
}

Result<void> Mailbox::check_fits(const Letter& letter, const Envelope& envelope, int from) {
  if (letter.bytes == envelope.bytes && static_cast<std::uint32_t>(letter.dtype) == envelope.dtype)
    return ok();
  return Error(ErrorCode::kConfig,
               fmt::format("{}: the message from rank {} has {} bytes of {}", name_receive(letter), from,
                           envelope.bytes, to_string(static_cast<DType>(envelope.dtype))));
}

void Mailbox::expire(TimePoint time) {
  std::vector<bool> gone;
  gone.reserve(static_cast<std::size_t>(size_));
  for (int peer = 0; peer < size_; ++peer) gone.push_back(peer != rank_ && is_gone(peer));
  progress();  // once more: what a rank has sent before it ended counts
  for (int peer = 0; peer < size_; ++peer) expire_sends(peer, gone, time);

  const auto end_if_ill = [&](Pending& receive, int from) {
    Letter letter = receive.letter;
    letter.peer = from;
    auto error = error_of(letter, name_receive(letter), gone, receive.deadline, time);
    if (error) finish(std::move(receive), std::move(*error), -1);
    return error.has_value();
  };
  for (auto receive = receives_.begin(); receive != receives_.end();) {
    receive = end_if_ill(*receive, receive->letter.peer) ? receives_.erase(receive) : std::next(receive);
  }
  // Whoever has begun to send is the one who has to end it, also where any rank would have done.
  for (int from = 0; from < size_; ++from) {
    Incoming& incoming = incoming_[static_cast<std::size_t>(from)];
    if (!incoming.target || !end_if_ill(*incoming.target, from)) continue;
    incoming.target.reset();
    incoming.envelope->tag = kNobodysTag;
    incoming.stash.resize(incoming.envelope->bytes);
  }
}

void Mailbox::expire_sends(int to, const std::vector<bool>& is_gone, TimePoint time) {
  std::list<Pending>& queue = sends_[static_cast<std::size_t>(to)];
  while (!queue.empty()) {
    Pending& front = queue.front();
    const std::string name = name_send(front.letter);
    auto error = error_of(front.letter, name, is_gone, front.deadline, time);
    if (!error && is_cut_off_[static_cast<std::size_t>(to)]) {
      error = Error(ErrorCode::kPeerLost, fmt::format("{}: an earlier send timed out in the middle", name));
    }
    if (!error) return;
    if (front.has_envelope) is_cut_off_[static_cast<std::size_t>(to)] = true;
    finish(std::move(front), std::move(*error), -1);
    queue.pop_front();
  }
}

std::optional<Error> Mailbox::error_of(const Letter& letter, const std::string& name,
                                       const std::vector<bool>& is_gone, TimePoint deadline,
                                       TimePoint time) const {
  if (letter.peer >= 0 && is_gone[static_cast<std::size_t>(letter.peer)]) {
    return Error(ErrorCode::kPeerLost, fmt::format("{}: rank {} (pid {}) has ended", name, letter.peer,
                                                   segment_->rank_state(letter.peer).pid));
  }
  if (letter.peer < 0 && size_ > 1 && std::count(is_gone.begin(), is_gone.end(), true) == size_ - 1) {
    return Error(ErrorCode::kPeerLost, fmt::format("{}: all other ranks have ended", name));
  }
  if (time < deadline) return std::nullopt;
  return Error(ErrorCode::kTimeout, fmt::format("{}: timed out after {:.1f} s on rank {}", name,
                                                to_seconds(letter.timeout), rank_));
}

bool Mailbox::is_gone(int peer) {
  const RankState& state = segment_->rank_state(peer);
  if (state.state.load(std::memory_order_acquire) == RankState::kLeft) return true;
  return watch_.is_dead(peer, {.pid = state.pid, .start_time = state.start_time});
}

void Mailbox::fail_all(const Error& error) {
  for (std::list<Pending>& queue : sends_) {
    for (Pending& pending : queue) finish(std::move(pending), error, -1);
    queue.clear();
  }
  for (Pending& pending : receives_) finish(std::move(pending), error, -1);
  receives_.clear();
  for (Incoming& incoming : incoming_) {
    if (incoming.target) finish(std::move(*incoming.target), error, -1);
    incoming.target.reset();
  }
}

}  // namespace ddprun::runtime::shm
