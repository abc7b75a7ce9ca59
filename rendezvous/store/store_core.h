#pragma once

#include "rendezvous/base/result.h"
#include "rendezvous/store/limits.h"
#include "rendezvous/store/wire.h"

#include <boost/unordered_map.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::store {

class StoreClient;

namespace internal {

/// Lets maps of strings be searched with a view.
struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>{}(text); }
};

/// Boost's: libstdc++ searches its own with a view since gcc 11.
template <class Value>
using StringMap = boost::unordered_map<std::string, Value, StringHash, std::equal_to<>>;

using WaiterList = std::list<StoreClient*>;

/// One client's place in the waiter list of one key.
struct WaitLink {
  std::pair<const std::string, WaiterList>* key;  ///< a map's elements stay where they are
  WaiterList::iterator position;
};

struct Barrier {
  std::int64_t arrived = 0;
  std::list<StoreClient*> waiting;
};

}  // namespace internal

/// One connection as the store sees it. The shell derives from it, connects it by serving its first request
/// and must call `StoreCore::disconnect` before it dies.
class StoreClient {
 public:
  /// Takes the next bytes of the reply stream. Called from within `StoreCore::serve` and `disconnect`, also
  /// of other clients: it must not call back into the core.
  virtual void send(std::string_view bytes) = 0;

  /// True between a WAIT or BARRIER that could not be answered and its answer. A shell serves nothing but
  /// CANCEL_WAIT in that time, so that replies stay in the order of the requests.
  [[nodiscard]] bool is_waiting() const { return !links_.empty() || barrier_ != nullptr; }

 protected:
  StoreClient() = default;
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;
  ~StoreClient() = default;

 private:
  friend class StoreCore;
  std::vector<internal::WaitLink> links_;  ///< one for each key named in the WAIT, while it is unanswered
  std::size_t missing_ = 0;                ///< how many of them are absent
  internal::Barrier* barrier_ = nullptr;
  std::list<StoreClient*>::iterator barrier_position_;
  /// The queue whose item ended this client's last wait, not yet fetched.
  std::optional<std::string> woken_by_queue_;
};

/// One key space: keys, queues, barriers, and who waits for them. Pure: no socket, no clock.
///
/// Presence   a key is present when it has a value or its queue has an item. WAIT is answered when all its
///            keys are present at the same time. A value wakes everybody who waits for it, an item of a queue
///            one waiter; if that one does not fetch it, the next is woken.
/// Barriers   a participant that cancels or disconnects while it waits is no longer counted.
class StoreCore {
 public:
  explicit StoreCore(const Limits& limits) : limits_(limits) {}
  StoreCore(const StoreCore&) = delete;
  StoreCore& operator=(const StoreCore&) = delete;

  /// Carries out one request and sends what is to be answered now, to `client` and to those it wakes.
  /// Errors   kCorrupt: the request cannot be served and has no reply for that; the connection must be
  ///          closed.
  Result<void> serve(StoreClient& client, const Request& request);

  /// Forgets a client that is going away.
  void disconnect(StoreClient& client);

  /// Waiters of all keys together; a client that waits for three keys counts three times.
  [[nodiscard]] std::size_t wait_count() const;

 private:
  using Queue = std::deque<std::string>;

  Result<void> validate(const Request& request);
  void compare_set(StoreClient& client, const Request& request);
  void get(StoreClient& client, std::string_view key);
  Result<void> add(StoreClient& client, const Request& request);
  void check(StoreClient& client, const Request& request);
  void wait(StoreClient& client, const Request& request);
  void delete_key(StoreClient& client, std::string_view key);
  void append(const Request& request);
  Result<void> multi_get(StoreClient& client, const Request& request);
  void multi_set(const Request& request);
  void cancel_wait(StoreClient& client);
  void queue_push(const Request& request);
  void queue_pop(StoreClient& client, std::string_view key);
  void queue_length(StoreClient& client, std::string_view key);
  Result<void> list_keys(StoreClient& client);
  void barrier(StoreClient& client, const Request& request);

  [[nodiscard]] bool is_present(std::string_view key) const;
  [[nodiscard]] const std::string* find(std::string_view key) const;
  void set(std::string_view key, std::string_view value);
  void value_appeared(std::string_view key);
  void item_appeared(std::string_view key, const Queue& queue);
  void vanished(std::string_view key);
  void wake_one(std::string_view key);
  void release(StoreClient& client);
  void unlink(StoreClient& client);
  void leave_barrier(StoreClient& client);
  void settle_wakeup(StoreClient& client, const Request* next_request);

  Limits limits_;
  internal::StringMap<std::string> values_;
  internal::StringMap<Queue> queues_;  ///< never holds an empty one
  internal::StringMap<internal::WaiterList> waiters_;
  internal::StringMap<internal::Barrier> barriers_;
};

}  // namespace ddprun::store
