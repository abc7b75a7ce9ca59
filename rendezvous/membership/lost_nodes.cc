#include "rendezvous/membership/lost_nodes.h"

#include <algorithm>
#include <utility>

namespace ddprun::membership {
namespace {

constexpr std::size_t kRememberedExpulsions = 4096;

}  // namespace

std::optional<NodeRank> LostNodes::came_back(MemberId who) {
  fences_.erase(who);
  std::erase_if(vacant_seats_, [who](const VacantSeat& vacant) { return vacant.who == who; });
  const auto place = places_.find(who);
  return place == places_.end() ? std::nullopt : std::optional(place->second);
}

void LostNodes::fill(NodeRank seat) {
  std::erase_if(vacant_seats_, [seat](const VacantSeat& vacant) { return vacant.rank == seat; });
}

std::vector<VacantSeat> LostNodes::awaited(TimePoint now) const {
  std::vector<VacantSeat> awaited = vacant_seats_;
  std::erase_if(awaited, [now](const VacantSeat& vacant) { return now >= vacant.returns_by; });
  return awaited;
}

void LostNodes::fence(MemberId who, TimePoint until) { fences_[who] = until; }

TimePoint LostNodes::fenced_until() const {
  TimePoint last = TimePoint::min();
  for (const auto& [who, until] : fences_) last = std::max(last, until);
  return last;
}

void LostNodes::expel(MemberId who, std::string why) {
  if (expelled_.size() >= kRememberedExpulsions) expelled_.erase(expelled_.begin());
  expelled_[who] = std::move(why);
}

void LostNodes::shift(Duration pause) {
  for (auto& [who, until] : fences_) until += pause;
  for (VacantSeat& vacant : vacant_seats_) {
    if (vacant.returns_by != TimePoint::min()) vacant.returns_by += pause;
  }
}

void LostNodes::begin_generation() {
  fences_.clear();
  vacant_seats_.clear();
  places_.clear();
}

const std::string* LostNodes::why_expelled(MemberId who) const {
  const auto found = expelled_.find(who);
  return found == expelled_.end() ? nullptr : &found->second;
}

}  // namespace ddprun::membership
