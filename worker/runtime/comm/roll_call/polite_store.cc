#include "worker/runtime/comm/roll_call/polite_store.h"

#include "worker/runtime/comm/roll_call/await_keys.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

namespace ddprun::runtime {

using Value = std::vector<std::uint8_t>;

PoliteStore::PoliteStore(c10::intrusive_ptr<c10d::Store> behind) : behind_(std::move(behind)) {}

c10::intrusive_ptr<c10d::Store> PoliteStore::clone() {
  return c10::make_intrusive<PoliteStore>(behind_->clone());
}

void PoliteStore::wait(const std::vector<std::string>& keys) { wait(keys, getTimeout()); }

void PoliteStore::wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) {
  const bool is_endless = timeout < std::chrono::milliseconds::zero();
  if (await_keys(*behind_, keys, is_endless ? std::chrono::milliseconds::max() : timeout)) return;
  // As c10d::TCPStore words it.
  C10_THROW_ERROR(DistStoreError,
                  fmt::format("wait timeout after {}ms, keys: {}", timeout.count(), fmt::join(keys, ", ")));
}

Value PoliteStore::get(const std::string& key) {
  wait({key});
  return behind_->get(key);
}

std::vector<Value> PoliteStore::multiGet(const std::vector<std::string>& keys) {
  wait(keys);
  return behind_->multiGet(keys);
}

void PoliteStore::set(const std::string& key, const Value& value) { behind_->set(key, value); }

Value PoliteStore::compareSet(const std::string& key, const Value& expected, const Value& desired) {
  return behind_->compareSet(key, expected, desired);
}

std::int64_t PoliteStore::add(const std::string& key, std::int64_t value) { return behind_->add(key, value); }

bool PoliteStore::deleteKey(const std::string& key) { return behind_->deleteKey(key); }

bool PoliteStore::check(const std::vector<std::string>& keys) { return behind_->check(keys); }

std::int64_t PoliteStore::getNumKeys() { return behind_->getNumKeys(); }

const std::chrono::milliseconds& PoliteStore::getTimeout() const noexcept { return behind_->getTimeout(); }

void PoliteStore::setTimeout(const std::chrono::milliseconds& timeout) { behind_->setTimeout(timeout); }

void PoliteStore::append(const std::string& key, const Value& value) { behind_->append(key, value); }

void PoliteStore::multiSet(const std::vector<std::string>& keys, const std::vector<Value>& values) {
  behind_->multiSet(keys, values);
}

bool PoliteStore::hasExtendedApi() const { return behind_->hasExtendedApi(); }

void PoliteStore::queuePush(const std::string& key, const Value& value) { behind_->queuePush(key, value); }

Value PoliteStore::queuePop(const std::string& key, bool block) { return behind_->queuePop(key, block); }

std::int64_t PoliteStore::queueLen(const std::string& key) { return behind_->queueLen(key); }

std::vector<std::string> PoliteStore::listKeys() { return behind_->listKeys(); }

}  // namespace ddprun::runtime
