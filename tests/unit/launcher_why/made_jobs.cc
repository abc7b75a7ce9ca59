#include "tests/unit/launcher_why/made_jobs.h"

#include "tests/unit/launcher_why/made_pictures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ddprun::launcher::why {
namespace {

constexpr const char* kWorld = "0";

}  // namespace

MadeJob::MadeJob(std::uint32_t seed) : random_(seed) {
  world_ = 2 + draw(4);
  tells_members_ = draw(2) == 0;
  is_nccl_ = tells_members_ && draw(2) == 0;
  are_messages_nccls_ = is_nccl_ && draw(2) == 0;
  std::set<int>& all = groups_[kWorld];
  for (int rank = 0; rank < world_; ++rank) all.insert(rank);
  for (const char* const name : {"1", "2"}) {
    if (world_ < 3 || draw(2) == 0) continue;
    std::set<int> members;
    for (int rank = 0; rank < world_; ++rank) {
      if (draw(2) == 0) members.insert(rank);
    }
    if (members.size() >= 2) groups_[name] = members;
  }
  make_program();
  fault_ = static_cast<Fault>(draw(6));
  culprit_ = draw(world_);
  fault_at_ = static_cast<std::size_t>(draw(static_cast<int>(program_.size())));
  ranks_.resize(static_cast<std::size_t>(world_));
  for (Rank& rank : ranks_) rank.after = static_cast<After>(draw(3));
  play();
}

void MadeJob::make_program() {
  // As a job begins: everybody has used the world once.
  program_.push_back({.kind = Kind::kAllReduce, .group = kWorld});
  const int length = 1 + draw(8);
  for (int i = 0; i < length; ++i) {
    auto group = groups_.begin();
    std::advance(group, draw(static_cast<int>(groups_.size())));
    const auto member = [&] {
      auto found = group->second.begin();
      std::advance(found, draw(static_cast<int>(group->second.size())));
      return *found;
    };
    Operation operation{.kind = Kind::kAllReduce, .group = group->first, .root = member(), .peer = member()};
    switch (draw(8)) {
      case 0:
        operation.kind = Kind::kBroadcast;
        break;
      case 1:
        operation.kind = Kind::kReduce;
        break;
      case 2:
        operation.kind = Kind::kMessage;
        break;
      case 3:
        operation.kind = Kind::kKey;
        break;
      default:
        operation.is_asynchronous = draw(3) == 0;
    }
    const bool is_between_two = operation.kind == Kind::kMessage || operation.kind == Kind::kKey;
    if (is_between_two && operation.root == operation.peer) continue;
    program_.push_back(operation);
  }
}

bool MadeJob::takes_part(int rank, const Operation& operation) const {
  if (operation.kind == Kind::kMessage || operation.kind == Kind::kKey)
    return rank == operation.root || rank == operation.peer;
  return groups_.at(operation.group).contains(rank);
}

void MadeJob::play() {
  std::vector<int> order;
  for (int rank = 0; rank < world_; ++rank) order.push_back(rank);
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    std::shuffle(order.begin(), order.end(), random_);
    for (const int rank : order) has_moved = advance(rank) || has_moved;
  }
  // A thread of the backend ends what was begun asynchronously, whatever the rank does.
  for (const int rank : order) end_what_is_over(rank);
}

void MadeJob::begin(int rank, const Operation& operation) {
  Rank& self = ranks_[static_cast<std::size_t>(rank)];
  std::int64_t sequence = 1;
  for (const Entry& entry : self.entries) sequence += entry.group == operation.group;
  self.entries.push_back({operation.group, sequence, operation.kind, operation.root, stamp_++, false});
  entered_[{operation.group, sequence}][rank] = operation.kind;
}

bool MadeJob::is_over(int rank, const Entry& entry) const {
  const std::map<int, Kind>& entered = entered_.at({entry.group, entry.sequence});
  const auto is_in = [&](int one) {
    const auto found = entered.find(one);
    return found != entered.end() && found->second == entry.kind;
  };
  const std::set<int>& members = groups_.at(entry.group);
  if (entry.kind == Kind::kBroadcast) return rank == entry.root || is_in(entry.root);
  if (entry.kind == Kind::kReduce && rank != entry.root) return true;
  return std::all_of(members.begin(), members.end(), is_in);
}

void MadeJob::end_what_is_over(int rank) {
  for (Entry& entry : ranks_[static_cast<std::size_t>(rank)].entries)
    entry.is_over = entry.is_over || is_over(rank, entry);
}

bool MadeJob::waits(int rank) const {
  const Rank& self = ranks_[static_cast<std::size_t>(rank)];
  return !self.is_at_fault && !self.is_done && !self.has_ended;
}

bool MadeJob::advance(int rank) {
  Rank& self = ranks_[static_cast<std::size_t>(rank)];
  if (self.is_at_fault || self.is_done || self.has_ended) return false;
  end_what_is_over(rank);
  while (self.at < program_.size() && !takes_part(rank, program_[self.at])) ++self.at;
  const bool is_all_over =
      std::all_of(self.entries.begin(), self.entries.end(), [](const Entry& entry) { return entry.is_over; });
  if (!self.is_in && rank == culprit_ && self.at >= fault_at_ && self.at < program_.size()) {
    if (fault_ == Fault::kSkips) {
      fault_at_ = program_.size();
      ++self.at;
      return true;
    }
    if (fault_ != Fault::kNone) {
      self.is_at_fault = true;
      self.has_ended = fault_ == Fault::kEnds;
      return true;
    }
  }
  if (self.at == program_.size()) {
    if (!is_all_over) return false;
    self.is_done = true;
    self.has_ended = self.after == After::kEnds;
    return true;
  }
  const Operation& operation = program_[self.at];
  const bool is_between_two = operation.kind == Kind::kMessage || operation.kind == Kind::kKey;
  if (!self.is_in) {
    // What was begun asynchronously is waited for before the next one.
    if (!is_all_over) return false;
    self.is_in = true;
    self.came = stamp_;
    if (is_between_two && rank == operation.root) sent_.insert(self.at);
    if (!is_between_two) begin(rank, operation);
    end_what_is_over(rank);
  }
  const bool is_done =
      is_between_two ? sent_.contains(self.at) : operation.is_asynchronous || self.entries.back().is_over;
  if (!is_done) return false;
  self.is_in = false;
  ++self.at;
  return true;
}

RankFacts MadeJob::facts_of(int rank) const {
  const Rank& self = ranks_[static_cast<std::size_t>(rank)];
  const bool is_open = std::any_of(self.entries.begin(), self.entries.end(),
                                   [](const Entry& entry) { return !entry.is_over; });
  RankFacts facts = rank_in(rank, SYS_futex);
  if (self.has_ended) {
    facts.pid = 0;
    facts.ended_with_0 = true;
    facts.first = facts.second = {};
    facts.recorder = facts.recorder_first = {};
    return facts;
  }
  static const std::map<Kind, std::string> kNames{
      {Kind::kAllReduce, "all_reduce"}, {Kind::kBroadcast, "broadcast"}, {Kind::kReduce, "reduce"}};
  constexpr double kWaits = 60;
  const std::string backend = is_nccl_ ? "nccl" : "gloo";
  if (is_nccl_) use_nccl(facts);
  for (const Entry& entry : self.entries)
    enter(facts, kNames.at(entry.kind), kWaits + (stamp_ - entry.stamp) * 0.01, entry.is_over, entry.group,
          backend);
  for (const auto& [name, members] : groups_) {
    if (!members.contains(rank)) continue;
    std::int64_t last = 0;
    for (const Entry& entry : self.entries) last += entry.group == name;
    join(facts, name, last, tells_members_ ? fmt::format("{}", fmt::join(members, ",")) : std::string(),
         backend);
  }
  facts.recorder_first = facts.recorder;
  if (self.is_at_fault) {
    facts.native = {{.tid = facts.pid, .name = "python3", .functions = {"pthread_mutex_lock"}}};
    if (fault_ == Fault::kComputes) compute(facts);
    if (fault_ == Fault::kStops) facts.first.threads[0].state = facts.second.threads[0].state = "T";
    return facts;
  }
  if (self.is_done) {
    if (self.after == After::kComputes) compute(facts);
    return facts;
  }
  const Kind kind = self.at < program_.size() && self.is_in ? program_[self.at].kind : Kind::kAllReduce;
  if (kind == Kind::kKey) {
    facts.first = asleep(facts.pid, 1, SYS_poll);
    facts.second = asleep(facts.pid, 2, SYS_poll);
    facts.object.is_store = true;
  } else if (kind == Kind::kMessage && are_messages_nccls_) {
    const std::int64_t last = std::count_if(self.entries.begin(), self.entries.end(),
                                            [](const Entry& entry) { return entry.group == kWorld; });
    enter(facts, "recv", kWaits + (stamp_ - self.came) * 0.01, false, kWorld, backend);
    facts.recorder.entries.back().is_peer = true;
    facts.recorder.entries.back().sequence = last;
    facts.recorder_first = facts.recorder;
    facts.native[0].functions = {"cudaStreamSynchronize"};
    compute(facts);
  } else if (kind == Kind::kMessage) {
    facts.native = {
        {.tid = facts.pid, .name = "python3", .functions = {"c10d::ProcessGroupGloo::RecvWork::wait"}}};
  } else if (is_open && is_nccl_) {
    compute(facts);
  } else if (is_open) {
    facts.native = {{.tid = facts.pid, .name = "python3", .functions = {"c10d::Work::wait"}}};
  }
  return facts;
}

JobPicture MadeJob::picture(Hole hole) {
  std::vector<RankFacts> ranks;
  for (int rank = 0; rank < world_; ++rank) ranks.push_back(facts_of(rank));
  const int first_unseen = hole == Hole::kUnseen ? 1 + draw(world_ - 1) : world_;
  for (RankFacts& facts : ranks) {
    const bool is_chosen = draw(2) == 0;
    if (hole == Hole::kUnread && is_chosen && facts.pid != 0) {
      facts.first = facts.second = {};
      facts.recorder = facts.recorder_first = {};
      facts.native.clear();
      facts.object = {};
      facts.problem = "not everything could be read of it in time";
    }
    if (hole == Hole::kUnrecorded && is_chosen && facts.pid != 0) {
      facts.recorder = facts.recorder_first = {};
      facts.recorder.problem = facts.recorder_first.problem = "this torch is laid out differently";
    }
    if (hole == Hole::kUnstacked && is_chosen) facts.native.clear();
    if (hole == Hole::kStacksOnly) facts.recorder = facts.recorder_first = {};
  }
  ranks.resize(static_cast<std::size_t>(first_unseen));
  JobPicture picture = picture_of(std::move(ranks));
  picture.world_size = world_;
  picture.asks_others = hole == Hole::kUnseen;
  if (first_unseen < world_) picture.unseen = {"node b (10.0.0.2) has not answered within 6.0 s"};
  return picture;
}

bool MadeJob::may_spin() const {
  const std::vector<Entry>& entries = ranks_[static_cast<std::size_t>(culprit_)].entries;
  return is_nccl_ && fault_ == Fault::kComputes &&
         std::any_of(entries.begin(), entries.end(), [](const Entry& entry) { return !entry.is_over; });
}

bool MadeJob::is_anybody_waiting() const {
  for (int rank = 0; rank < world_; ++rank) {
    if (waits(rank)) return true;
  }
  return false;
}

bool MadeJob::tells_all() const {
  for (int rank = 0; rank < world_; ++rank) {
    const Rank& self = ranks_[static_cast<std::size_t>(rank)];
    if (!waits(rank) || !self.is_in) continue;
    const Operation& operation = program_[self.at];
    if (operation.kind == Kind::kMessage || operation.kind == Kind::kKey) return false;
    if (!tells_members_ && operation.group != kWorld) return false;
  }
  return true;
}

std::string MadeJob::script() const {
  static const std::map<Kind, std::string> kNames{{Kind::kAllReduce, "all_reduce"},
                                                  {Kind::kBroadcast, "broadcast"},
                                                  {Kind::kReduce, "reduce"},
                                                  {Kind::kMessage, "message"},
                                                  {Kind::kKey, "key"}};
  std::string text =
      fmt::format("rank {} has fault {} at {};", culprit_, static_cast<int>(fault_), fault_at_);
  for (const auto& [name, members] : groups_)
    text +=
        fmt::format(" group {}: {}{};", name, fmt::join(members, ","), tells_members_ ? "" : " (not told)");
  for (const Operation& operation : program_)
    text += fmt::format(" {}{} in {} root {} peer {};", operation.is_asynchronous ? "async " : "",
                        kNames.at(operation.kind), operation.group, operation.root, operation.peer);
  for (int rank = 0; rank < world_; ++rank) {
    const Rank& self = ranks_[static_cast<std::size_t>(rank)];
    text += fmt::format(" rank {} {} {}{};", rank,
                        self.has_ended     ? "has ended at"
                        : self.is_done     ? "does something of its own at"
                        : self.is_at_fault ? "is at fault at"
                                           : "waits at",
                        self.at, self.is_in ? " (in it)" : "");
  }
  return text;
}

}  // namespace ddprun::launcher::why
