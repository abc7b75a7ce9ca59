#include "rendezvous/membership/looks.h"

#include <algorithm>
#include <utility>

namespace ddprun::membership {

LookRequest Looks::begin(ConnectionId asker, std::uint64_t number, const std::vector<ConnectionId>& nodes,
                         LookKind kind) {
  std::erase_if(looks_,
                [&](const auto& entry) { return entry.second.asker == asker && entry.second.kind == kind; });
  const LookRequest request{
      .number = ++count_,
      .most_bytes = std::clamp(kAllBytes / std::max<std::size_t>(nodes.size(), 1), kLeastBytes, kMostBytes),
      .kind = kind};
  if (nodes.empty()) return request;
  Look& look = looks_[request.number];
  look.asker = asker;
  look.number = number;
  look.kind = kind;
  for (const ConnectionId node : nodes) look.bytes_left[node] = request.most_bytes;
  return request;
}

std::optional<Looks::Forward> Looks::answered(ConnectionId node, LookAnswer answer) {
  const auto found = looks_.find(answer.number);
  if (found == looks_.end()) return std::nullopt;
  Look& look = found->second;
  const auto share = look.bytes_left.find(node);
  if (share == look.bytes_left.end()) return std::nullopt;
  // JSON makes six bytes of a control character: a part that came in one frame would not go on in one.
  std::replace_if(
      answer.text.begin(), answer.text.end(),
      [](char c) { return static_cast<unsigned char>(c) < ' ' && c != '\n'; }, ' ');
  const std::size_t cost = std::max(answer.text.size(), kLeastCost);
  if (cost > share->second) {
    answer.text.clear();
    answer.is_last = true;
  }
  share->second -= std::min(cost, share->second);
  Forward forward{look.asker, std::move(answer)};
  forward.answer.number = look.number;
  forward.answer.from = node.value();
  if (forward.answer.is_last) look.bytes_left.erase(share);
  if (look.bytes_left.empty()) looks_.erase(found);
  return forward;
}

std::vector<Looks::Forward> Looks::gone(ConnectionId connection) {
  std::erase_if(looks_, [&](const auto& entry) { return entry.second.asker == connection; });
  std::vector<Forward> forwards;
  for (auto& [number, look] : looks_) {
    if (look.bytes_left.erase(connection) > 0)
      forwards.push_back({look.asker, {.number = look.number, .from = connection.value(), .is_last = true}});
  }
  std::erase_if(looks_, [](const auto& entry) { return entry.second.bytes_left.empty(); });
  return forwards;
}

}  // namespace ddprun::membership
