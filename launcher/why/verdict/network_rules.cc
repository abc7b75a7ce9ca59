// Of ranks that all wait: what is between them does not get on.
#include "launcher/why/verdict/rank_sets.h"
#include "launcher/why/verdict/rules.h"
#include "launcher/why/verdict/verdict_words.h"
#include "rendezvous/base/endpoint.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

namespace ddprun::launcher::why {
namespace {

/// Those below 1024 are of services: no rank listens at one.
bool is_well_known_port(const std::string& address) {
  constexpr std::uint16_t kFirstOfRanks = 1024;
  const std::optional<Port> port = endpoint_of(address).port;
  return port && port->value() < kFirstOfRanks;
}

Accusation accuse_cut_off(const Ranks& unseen, const Ranks& waiting, const std::set<std::string>& hosts,
                          const LostPackets& worst) {
  return {.confidence = Confidence::kLikely,
          .guilty = unseen,
          .waiting = waiting,
          .reason = cut_off_words(unseen, hosts, worst)};
}

/// All that ranks have sent may be acknowledged where a node is cut off; a launcher has just asked that node.
std::optional<Accusation> accuse_launchers_network(const Scene& scene, const Ranks& waiting) {
  const JobPicture& picture = scene.picture();
  LostPackets worst;
  std::set<std::string> hosts;
  for (const RankFacts& facts : picture.ranks) {
    for (const Connection& connection : facts.launcher_connections) {
      const std::string host = host_of(connection.remote);
      const std::string address = "(" + host + ")";
      if (std::none_of(picture.silent_nodes.begin(), picture.silent_nodes.end(),
                       [&](const std::string& node) { return node.find(address) != std::string::npos; }))
        continue;
      hosts.insert(host);
      worst = {.rank = facts.rank, .is_launchers = true, .on = &connection};
    }
  }
  const Ranks unseen = scene.unseen();
  const bool is_all = hosts.size() == picture.unseen.size();
  if (unseen.empty() || hosts.empty() || !is_all) return std::nullopt;
  return accuse_cut_off(unseen, waiting, hosts, worst);
}

std::optional<Accusation> accuse_lossy(const Scene& scene, const Ranks& waiting, double waited) {
  std::map<int, int> bad_connections;  // by rank
  int most = 0;
  LostPackets worst;
  std::set<std::string> unseen_hosts;
  for (const RankFacts& facts : scene.picture().ranks) {
    for (const Connection& connection : facts.connections) {
      if (!connection.is_unanswered()) continue;
      const int peer = scene.rank_at(connection.remote);
      if (peer < 0 && is_well_known_port(connection.remote)) continue;
      most = std::max(most, ++bad_connections[facts.rank]);
      if (peer >= 0) most = std::max(most, ++bad_connections[peer]);
      if (peer < 0) unseen_hosts.insert(host_of(connection.remote));
      worst = {.rank = facts.rank, .on = &connection};
    }
  }
  if (worst.on == nullptr) return accuse_launchers_network(scene, waiting);
  const Ranks unseen = scene.unseen();
  if (unseen_hosts.size() == 1 && !unseen.empty())
    return accuse_cut_off(unseen, waiting, unseen_hosts, worst);
  Ranks guilty;
  for (const auto& [rank, count] : bad_connections) {
    if (count == most) guilty.insert(rank);
  }
  return Accusation{.confidence = Confidence::kLikely,
                    .guilty = guilty,
                    .waiting = without(waiting, guilty),
                    .reason = network_words(scene, guilty, worst),
                    .waited_s = waited};
}

}  // namespace

std::optional<Accusation> accuse_network(const Scene& scene) {
  if (scene.has_progress()) return std::nullopt;
  const Ranks waiting = scene.ranks_that(waits);
  const std::size_t ended = ended_ranks(scene).size();
  if (waiting.empty() || waiting.size() + ended < scene.picture().ranks.size()) return std::nullopt;
  const double waited = scene.waited_by(waiting);
  if (scene.is_usual(waited)) return std::nullopt;
  if (std::optional<Accusation> lossy = accuse_lossy(scene, waiting, waited)) return lossy;
  return Accusation{
      .confidence = Confidence::kGuess, .waiting = waiting, .reason = all_wait_words(scene, waiting)};
}

}  // namespace ddprun::launcher::why
