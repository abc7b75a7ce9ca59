#include "rendezvous/membership/losses.h"

#include <algorithm>
#include <utility>

namespace ddprun::membership {
namespace {

constexpr std::size_t kRememberedExpulsions = 4096;

}  // namespace

void Losses::add_cut_off(LostNode node) { lost_.push_back(std::move(node)); }

void Losses::add_gone(LostNode node, bool is_cause) {
  if (is_cause) lost_.push_back(node);
  holes_.push_back(std::move(node));
}

void Losses::came_back(MemberId who) {
  fences_.erase(who);
  std::erase_if(holes_, [who](const LostNode& hole) { return hole.who == who; });
}

void Losses::fill(NodeRank seat) {
  std::erase_if(holes_, [seat](const LostNode& hole) { return hole.rank == seat; });
}

std::vector<LostNode> Losses::awaited(TimePoint now) const {
  std::vector<LostNode> awaited = holes_;
  std::erase_if(awaited, [now](const LostNode& hole) { return now >= hole.returns_by; });
  return awaited;
}

void Losses::fence(MemberId who, TimePoint until) { fences_[who] = until; }

TimePoint Losses::fenced_until() const {
  TimePoint last = TimePoint::min();
  for (const auto& [who, until] : fences_) last = std::max(last, until);
  return last;
}

bool Losses::are_by_pause() const {
  return !lost_.empty() &&
         std::all_of(lost_.begin(), lost_.end(), [](const LostNode& lost) { return lost.is_by_pause; });
}

void Losses::expel(MemberId who, std::string why) {
  if (expelled_.size() >= kRememberedExpulsions) expelled_.erase(expelled_.begin());
  expelled_[who] = std::move(why);
}

void Losses::shift(Duration pause) {
  for (auto& [who, until] : fences_) until += pause;
  for (LostNode& hole : holes_) {
    if (hole.returns_by != TimePoint::min()) hole.returns_by += pause;
  }
}

void Losses::begin_generation() {
  fences_.clear();
  holes_.clear();
}

std::vector<LostNode> Losses::take() { return std::exchange(lost_, {}); }

const std::string* Losses::why_expelled(MemberId who) const {
  const auto found = expelled_.find(who);
  return found == expelled_.end() ? nullptr : &found->second;
}

}  // namespace ddprun::membership
