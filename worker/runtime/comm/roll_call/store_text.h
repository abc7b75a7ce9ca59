#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::runtime {

/// c10d's stores keep bytes; ranks tell each other sentences and numbers.
inline void put_text(c10d::Store& store, const std::string& key, const std::string& text) {
  store.set(key, std::vector<std::uint8_t>(text.begin(), text.end()));
}

/// Of a key that is there: await_keys() waits for one, where get would keep others from a c10d::TCPStore.
inline std::string take_text(c10d::Store& store, const std::string& key) {
  const std::vector<std::uint8_t> bytes = store.get(key);
  return {bytes.begin(), bytes.end()};
}

}  // namespace ddprun::runtime
