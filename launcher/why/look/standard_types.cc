#include "launcher/why/look/standard_types.h"

#include <array>
#include <set>

namespace ddprun::launcher::why {
namespace {

constexpr std::size_t kMapRoot = 16, kMapCount = 40, kMapBytes = 48;
constexpr std::size_t kNodeLeft = 16, kNodeRight = 24;

}  // namespace

std::optional<std::string> read_string(const ReadMemory& memory, Bytes object, std::size_t offset) {
  constexpr std::uint64_t kLongest = 200;
  const auto length = value_at<std::uint64_t>(object, offset + 8);
  if (length > kLongest) return std::nullopt;
  std::string text(length, '\0');
  if (length > 0 && !memory(value_at<std::uint64_t>(object, offset), text.data(), length))
    return std::nullopt;
  return text;
}

std::optional<std::vector<std::vector<unsigned char>>> read_map(const ReadMemory& memory, std::uint64_t map,
                                                                std::size_t size) {
  constexpr std::uint64_t kMostElements = 1024;
  std::array<unsigned char, kMapBytes> head{};
  if (!memory(map, head.data(), head.size())) return std::nullopt;
  const auto count = value_at<std::uint64_t>(head, kMapCount);
  if (count > kMostElements) return std::nullopt;
  std::vector<std::vector<unsigned char>> nodes;
  std::set<std::uint64_t> seen;
  std::vector<std::uint64_t> left{value_at<std::uint64_t>(head, kMapRoot)};
  while (!left.empty()) {
    const std::uint64_t address = left.back();
    left.pop_back();
    if (address == 0) continue;
    std::vector<unsigned char> node(size);
    if (nodes.size() == count || !seen.insert(address).second || !memory(address, node.data(), size))
      return std::nullopt;
    left.push_back(value_at<std::uint64_t>(node, kNodeLeft));
    left.push_back(value_at<std::uint64_t>(node, kNodeRight));
    nodes.push_back(std::move(node));
  }
  if (nodes.size() != count) return std::nullopt;
  return nodes;
}

}  // namespace ddprun::launcher::why
