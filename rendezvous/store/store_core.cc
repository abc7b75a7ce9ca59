#include "rendezvous/store/store_core.h"

#include "rendezvous/base/check.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

namespace ddprun::store {
namespace {

template <class Int>
void send_integer(StoreClient& client, Int value) {
  char bytes[sizeof(Int)];
  std::memcpy(bytes, &value, sizeof(Int));
  client.send({bytes, sizeof(Int)});
}

void send_string(StoreClient& client, std::string_view value) {
  send_integer(client, static_cast<std::uint64_t>(value.size()));
  client.send(value);
}

void send_byte(StoreClient& client, char byte) { client.send({&byte, 1}); }

// What std::stoll reads, because PyTorch's server does: leading blanks and trailing text are allowed.
std::optional<std::int64_t> leading_integer(const std::string& text) {
  errno = 0;
  char* end = nullptr;
  const std::int64_t value = std::strtoll(text.c_str(), &end, 10);
  if (end == text.c_str() || errno == ERANGE) return std::nullopt;
  return value;
}

Error refused(std::string message) { return Error(ErrorCode::kCorrupt, std::move(message)); }

}  // namespace

Result<void> StoreCore::serve(StoreClient& client, const Request& request) {
  if (client.woken_by_queue_) settle_wakeup(client, &request);
  switch (request.opcode) {
    case Opcode::kValidate:
      return validate(request);
    case Opcode::kSet:
      set(request.key(), request.value());
      break;
    case Opcode::kCompareSet:
      compare_set(client, request);
      break;
    case Opcode::kGet:
      get(client, request.key());
      break;
    case Opcode::kAdd:
      return add(client, request);
    case Opcode::kCheck:
      check(client, request);
      break;
    case Opcode::kWait:
      wait(client, request);
      break;
    case Opcode::kGetNumKeys:
      send_integer(client, static_cast<std::int64_t>(values_.size()));
      break;
    case Opcode::kDeleteKey:
      delete_key(client, request.key());
      break;
    case Opcode::kAppend:
      append(request);
      break;
    case Opcode::kMultiGet:
      return multi_get(client, request);
    case Opcode::kMultiSet:
      multi_set(request);
      break;
    case Opcode::kCancelWait:
      cancel_wait(client);
      break;
    case Opcode::kPing:
      send_integer(client, request.nonce);
      break;
    case Opcode::kQueuePush:
      queue_push(request);
      break;
    case Opcode::kQueuePop:
      queue_pop(client, request.key());
      break;
    case Opcode::kQueueLen:
      queue_length(client, request.key());
      break;
    case Opcode::kListKeys:
      return list_keys(client);
    case Opcode::kBarrier:
      barrier(client, request);
      break;
  }
  return ok();
}

void StoreCore::disconnect(StoreClient& client) {
  unlink(client);
  leave_barrier(client);
  settle_wakeup(client, nullptr);
}

std::size_t StoreCore::wait_count() const {
  std::size_t count = 0;
  for (const auto& [key, waiting] : waiters_) count += waiting.size();
  return count;
}

Result<void> StoreCore::validate(const Request& request) {
  if (request.nonce == kValidateMagic) return ok();
  return refused(
      fmt::format("VALIDATE with {:#010x} instead of {:#010x}: not a TCPStore client of this byte order",
                  request.nonce, kValidateMagic));
}

// A missing key with a non-empty expectation is answered with the expectation, though nothing is stored:
// clients rely on it (PyTorch documents it).
void StoreCore::compare_set(StoreClient& client, const Request& request) {
  const std::string_view expected = request.values[0];
  const std::string_view desired = request.values[1];
  const std::string* current = find(request.key());
  const bool matches = current == nullptr ? expected.empty() : *current == expected;
  if (matches) {
    set(request.key(), desired);
    send_string(client, desired);
  } else {
    send_string(client, current == nullptr ? expected : *current);
  }
}

void StoreCore::get(StoreClient& client, std::string_view key) {
  const std::string* value = find(key);
  send_string(client, value == nullptr ? std::string_view() : *value);
}

Result<void> StoreCore::add(StoreClient& client, const Request& request) {
  std::int64_t sum = request.number;
  if (const std::string* current = find(request.key())) {
    const std::optional<std::int64_t> base = leading_integer(*current);
    if (!base) {
      return refused(fmt::format("ADD to key \"{}\", whose value of {} bytes is no 64-bit integer",
                                 request.key(), current->size()));
    }
    if (__builtin_add_overflow(*base, request.number, &sum)) {
      return refused(fmt::format("ADD of {} to key \"{}\" overflows its value {}", request.number,
                                 request.key(), *base));
    }
  }
  set(request.key(), std::to_string(sum));
  send_integer(client, sum);
  return ok();
}

void StoreCore::check(StoreClient& client, const Request& request) {
  for (const std::string_view key : request.keys) {
    if (!is_present(key)) return send_byte(client, kNotReady);
  }
  send_byte(client, kReady);
}

void StoreCore::wait(StoreClient& client, const Request& request) {
  DDPRUN_CHECK(!client.is_waiting(), "a client that waits is served nothing but CANCEL_WAIT");
  std::size_t missing = 0;
  for (const std::string_view key : request.keys) missing += is_present(key) ? 0 : 1;
  if (missing == 0) return send_byte(client, kStopWaiting);

  client.missing_ = missing;
  client.links_.reserve(request.keys.size());
  for (const std::string_view key : request.keys) {
    auto found = waiters_.find(key);
    if (found == waiters_.end()) found = waiters_.emplace(std::string(key), internal::WaiterList()).first;
    internal::WaiterList& waiting = found->second;
    client.links_.push_back({&*found, waiting.insert(waiting.end(), &client)});
  }
}

void StoreCore::delete_key(StoreClient& client, std::string_view key) {
  const auto found = values_.find(key);
  const bool existed = found != values_.end();
  if (existed) {
    const std::string name = std::move(values_.extract(found).key());
    if (!is_present(name)) vanished(name);
  }
  send_integer(client, static_cast<std::int64_t>(existed ? 1 : 0));
}

void StoreCore::append(const Request& request) {
  const auto found = values_.find(request.key());
  if (found == values_.end()) return set(request.key(), request.value());
  found->second.append(request.value());
}

Result<void> StoreCore::multi_get(StoreClient& client, const Request& request) {
  std::uint64_t size = 0;
  for (const std::string_view key : request.keys) {
    const std::string* value = find(key);
    size += sizeof(std::uint64_t) + (value == nullptr ? 0 : value->size());
  }
  if (size > limits_.max_reply_bytes) {
    return refused(fmt::format("MULTI_GET of {} keys whose values have {} bytes in all; the limit is {}",
                               request.keys.size(), size, limits_.max_reply_bytes));
  }
  for (const std::string_view key : request.keys) get(client, key);
  return ok();
}

// All values are in place before anybody is woken: nobody sees a part of it.
void StoreCore::multi_set(const Request& request) {
  std::vector<std::string_view> appeared;
  for (std::size_t i = 0; i < request.keys.size(); ++i) {
    const auto [entry, is_new] =
        values_.insert_or_assign(std::string(request.keys[i]), std::string(request.values[i]));
    if (is_new) appeared.push_back(entry->first);
  }
  for (const std::string_view key : appeared) value_appeared(key);
}

void StoreCore::cancel_wait(StoreClient& client) {
  unlink(client);
  leave_barrier(client);
  send_byte(client, kWaitCanceled);
}

void StoreCore::queue_push(const Request& request) {
  auto found = queues_.find(request.key());
  if (found == queues_.end()) found = queues_.emplace(std::string(request.key()), Queue()).first;
  found->second.emplace_back(request.value());
  item_appeared(found->first, found->second);
}

void StoreCore::queue_pop(StoreClient& client, std::string_view key) {
  const auto found = queues_.find(key);
  if (found == queues_.end()) return send_integer(client, std::int64_t{0});
  Queue& queue = found->second;
  send_integer(client, static_cast<std::int64_t>(queue.size()));
  send_string(client, queue.front());
  queue.pop_front();
  if (!queue.empty()) return;
  queues_.erase(found);
  if (!is_present(key)) vanished(key);
}

void StoreCore::queue_length(StoreClient& client, std::string_view key) {
  const auto found = queues_.find(key);
  send_integer(client, static_cast<std::int64_t>(found == queues_.end() ? 0 : found->second.size()));
}

Result<void> StoreCore::list_keys(StoreClient& client) {
  std::uint64_t size = sizeof(std::int64_t);
  for (const auto& [key, value] : values_) size += sizeof(std::uint64_t) + key.size();
  if (size > limits_.max_reply_bytes) {
    return refused(fmt::format("LIST_KEYS of {} keys of {} bytes in all; the limit is {}", values_.size(),
                               size, limits_.max_reply_bytes));
  }
  send_integer(client, static_cast<std::int64_t>(values_.size()));
  for (const auto& [key, value] : values_) send_string(client, key);
  return ok();
}

void StoreCore::barrier(StoreClient& client, const Request& request) {
  DDPRUN_CHECK(!client.is_waiting(), "a client that waits is served nothing but CANCEL_WAIT");
  internal::Barrier& barrier = barriers_[std::string(request.key())];
  ++barrier.arrived;
  if (barrier.arrived < request.number) {
    client.barrier_ = &barrier;
    client.barrier_position_ = barrier.waiting.insert(barrier.waiting.end(), &client);
    return;
  }
  for (StoreClient* waiting : barrier.waiting) {
    waiting->barrier_ = nullptr;
    send_byte(*waiting, kStopWaiting);
  }
  barrier.waiting.clear();
  send_byte(client, kStopWaiting);
}

bool StoreCore::is_present(std::string_view key) const {
  return values_.find(key) != values_.end() || queues_.find(key) != queues_.end();
}

const std::string* StoreCore::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

void StoreCore::set(std::string_view key, std::string_view value) {
  const auto found = values_.find(key);
  if (found != values_.end()) {
    found->second.assign(value);
    return;
  }
  const auto entry = values_.emplace(std::string(key), std::string(value)).first;
  value_appeared(entry->first);
}

void StoreCore::value_appeared(std::string_view key) {
  const auto found = waiters_.find(key);
  if (found == waiters_.end()) return;
  const bool was_absent = queues_.find(key) == queues_.end();
  std::vector<StoreClient*> complete;
  for (StoreClient* client : found->second) {
    if (was_absent) --client->missing_;
    if (client->missing_ == 0) complete.push_back(client);
  }
  for (StoreClient* client : complete) release(*client);
}

void StoreCore::item_appeared(std::string_view key, const Queue& queue) {
  const auto found = waiters_.find(key);
  if (found == waiters_.end()) return;
  if (queue.size() == 1 && find(key) == nullptr) {
    for (StoreClient* client : found->second) --client->missing_;
  }
  wake_one(key);
}

void StoreCore::vanished(std::string_view key) {
  const auto found = waiters_.find(key);
  if (found == waiters_.end()) return;
  for (StoreClient* client : found->second) ++client->missing_;
}

void StoreCore::wake_one(std::string_view key) {
  const auto found = waiters_.find(key);
  if (found == waiters_.end()) return;
  for (StoreClient* client : found->second) {
    if (client->missing_ > 0) continue;
    client->woken_by_queue_ = std::string(key);
    release(*client);
    return;
  }
}

// A client that named a key twice is released once: the second call finds it without links.
void StoreCore::release(StoreClient& client) {
  if (client.links_.empty()) return;
  unlink(client);
  send_byte(client, kStopWaiting);
}

void StoreCore::unlink(StoreClient& client) {
  for (const internal::WaitLink& link : client.links_) {
    link.key->second.erase(link.position);
    if (link.key->second.empty()) waiters_.erase(waiters_.find(link.key->first));
  }
  client.links_.clear();
  client.links_.shrink_to_fit();
  client.missing_ = 0;
}

void StoreCore::leave_barrier(StoreClient& client) {
  if (client.barrier_ == nullptr) return;
  --client.barrier_->arrived;
  client.barrier_->waiting.erase(client.barrier_position_);
  client.barrier_ = nullptr;
}

// An item woke `client`. If it goes on to do anything but fetch the item, and the item is still there, the
// next waiter gets its turn; else that one would sleep beside a full queue.
void StoreCore::settle_wakeup(StoreClient& client, const Request* next_request) {
  const std::optional<std::string> key = std::exchange(client.woken_by_queue_, std::nullopt);
  if (!key) return;
  const bool fetches =
      next_request != nullptr && next_request->opcode == Opcode::kQueuePop && next_request->key() == *key;
  if (!fetches && queues_.find(*key) != queues_.end()) wake_one(*key);
}

}  // namespace ddprun::store
