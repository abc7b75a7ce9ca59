#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::runtime {

/// A store whose waits leave it free for others: those who share one c10d::TCPStore client (all groups of a rank, its
/// Drain, the program) each wait outside of it, gloo and NCCL included, which get it as the store of a group. All else
/// goes to the store behind it. One connection, whatever the number of groups.
/// Threads  any.
/// Errors   DistStoreError from wait, get and multiGet when a key does not come in time; what the store behind throws.
class PoliteStore final : public c10d::Store {
 public:
  explicit PoliteStore(c10::intrusive_ptr<c10d::Store> behind);

  c10::intrusive_ptr<Store> clone() override;
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override;
  std::vector<std::uint8_t> compareSet(const std::string& key, const std::vector<std::uint8_t>& expected,
                                       const std::vector<std::uint8_t>& desired) override;
  std::vector<std::uint8_t> get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  std::int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;
  [[nodiscard]] const std::chrono::milliseconds& getTimeout() const noexcept override;
  void setTimeout(const std::chrono::milliseconds& timeout) override;
  void append(const std::string& key, const std::vector<std::uint8_t>& value) override;
  std::vector<std::vector<std::uint8_t>> multiGet(const std::vector<std::string>& keys) override;
  void multiSet(const std::vector<std::string>& keys,
                const std::vector<std::vector<std::uint8_t>>& values) override;
  [[nodiscard]] bool hasExtendedApi() const override;
  void queuePush(const std::string& key, const std::vector<std::uint8_t>& value) override;
  /// A pop that blocks waits in the store behind: nothing tells one taker from another.
  std::vector<std::uint8_t> queuePop(const std::string& key, bool block) override;
  std::int64_t queueLen(const std::string& key) override;
  std::vector<std::string> listKeys() override;

 private:
  c10::intrusive_ptr<c10d::Store> behind_;
};

}  // namespace ddprun::runtime
