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

/// Of keys that are there, in one question where the store knows it.
inline std::vector<std::string> take_texts(c10d::Store& store, const std::vector<std::string>& keys) {
  std::vector<std::string> texts;
  if (!store.hasExtendedApi()) {
    for (const std::string& key : keys) texts.push_back(take_text(store, key));
    return texts;
  }
  for (const std::vector<std::uint8_t>& bytes : store.multiGet(keys))
    texts.emplace_back(bytes.begin(), bytes.end());
  return texts;
}

}  // namespace ddprun::runtime
