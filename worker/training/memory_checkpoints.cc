#include "worker/training/memory_checkpoints.h"

#include "rendezvous/base/check.h"
#include "rendezvous/base/env_contract.h"
#include "worker/runtime/checkpoint/share_pt.h"
#include "worker/runtime/throw_error.h"
#include "worker/training/state_shards.h"
#include <ddprun/collectives.h>
#include <ddprun/exception.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <span>
#include <utility>

namespace ddprun::training {
namespace {

/// Of what is kept, in its labels: another one is another ddprun's.
constexpr int kFormat = 1;

// The entries of what a rank keeps.
constexpr const char* kCommon = "common";
constexpr const char* kOwn = "own";

/// A rank says that it has a state of another world or job file.
constexpr const char* kAnother = "another";

/// Of one line each, "STEP ORIGIN".
std::string to_text(const MemoryMark& mark) { return fmt::format("{} {}", mark.step, mark.origin); }

std::optional<MemoryMark> parse_mark(std::string_view text) {
  MemoryMark mark;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, mark.step);
  if (error != std::errc() || rest == end) return std::nullopt;
  mark.origin.assign(rest + 1, end);
  return mark;
}

std::vector<MemoryMark> parse_marks(std::string_view text) {
  std::vector<MemoryMark> marks;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (auto mark = parse_mark(line)) marks.push_back(std::move(*mark));
  }
  return marks;
}

}  // namespace

std::optional<MemoryMark> newest_of_all(const std::vector<std::vector<MemoryMark>>& by_rank) {
  std::optional<MemoryMark> newest;
  for (const MemoryMark& mark : by_rank.front()) {
    const bool all_have_it = std::all_of(by_rank.begin(), by_rank.end(), [&](const auto& marks) {
      return std::find(marks.begin(), marks.end(), mark) != marks.end();
    });
    if (all_have_it && (!newest || mark.step > newest->step)) newest = mark;
  }
  return newest;
}

MemoryCheckpoints::MemoryCheckpoints(const Context& context, std::string_view names, const std::string& job)
    : context_(context),
      seat_(fmt::format("{} {} {} of {} ", kFormat, std::hash<std::string>()(job), context.rank(),
                        context.world_size())) {
  for (std::string_view left = names; !left.empty();) {
    const std::string name(left.substr(0, left.find(' ')));
    left.remove_prefix(std::min(left.size(), name.size() + 1));
    Result<runtime::KeptFile> file = runtime::KeptFile::open(name);
    if (!file) runtime::throw_error(file.error());
    files_.push_back(std::move(*file));
  }
  if (files_.size() != kKeptFiles) {
    throw Exception(ErrorCode::kConfig, fmt::format("{} names {} files; expected {}", env_name::kKeptMemory,
                                                    files_.size(), kKeptFiles));
  }
}

void MemoryCheckpoints::save(std::int64_t step, const Timeline& line, const RankState& state) {
  if (is_broken_) return;
  PtDict kept;
  kept.set(kCommon, shard_of(state.common, context_.rank(), context_.world_size()));
  kept.set(kOwn, state.own);
  const MemoryMark mark{.origin = fmt::format("{} {}", line.id, context_.restart_count()), .step = step};
  if (const Result<void> done = files_[next_].write(seat_ + to_text(mark), kept); !done) {
    is_broken_ = true;
    runtime::throw_error(done.error());
  }
}

void MemoryCheckpoints::confirm() {
  if (is_broken_) return;
  files_[next_].confirm();
  next_ = (next_ + 1) % files_.size();
}

std::vector<std::optional<MemoryMark>> MemoryCheckpoints::read_marks() const {
  std::vector<std::optional<MemoryMark>> marks;
  for (const runtime::KeptFile& file : files_) {
    const std::string label = file.label();
    marks.push_back(label.starts_with(seat_) ? parse_mark(std::string_view(label).substr(seat_.size()))
                                             : std::nullopt);
  }
  return marks;
}

bool MemoryCheckpoints::has_another() const {
  return std::any_of(files_.begin(), files_.end(), [&](const runtime::KeptFile& file) {
    const std::string label = file.label();
    return !label.empty() && !label.starts_with(seat_);
  });
}

MemoryCheckpoints::Found MemoryCheckpoints::find_after(std::int64_t step) {
  const std::vector<std::optional<MemoryMark>> mine = read_marks();
  std::string words = has_another() ? fmt::format("{}\n", kAnother) : std::string();
  for (const std::optional<MemoryMark>& mark : mine) {
    if (mark) words += to_text(*mark) + "\n";
  }
  std::vector<std::vector<MemoryMark>> by_rank;
  Found found;
  for (const std::string& theirs : all_gather_bytes(context_, words)) {
    if (theirs.starts_with(kAnother))
      found.passed_over = "what is kept is of another job file or number of ranks";
    by_rank.push_back(parse_marks(theirs));
  }
  const std::optional<MemoryMark> newest = newest_of_all(by_rank);
  if (!newest || newest->step <= step) return found;
  const auto place = static_cast<std::size_t>(std::find(mine.begin(), mine.end(), newest) - mine.begin());
  DDPRUN_CHECK(place < mine.size(), "every rank has it");
  try {
    found.point = share(place);
    found.point->step = newest->step;
    found.passed_over.clear();
    next_ = (place + 1) % files_.size();
  } catch (const Exception& exception) {
    if (exception.code() != ErrorCode::kCorrupt) throw;
    found.point.reset();
    found.passed_over =
        fmt::format("what is kept of step {} is damaged ({})", newest->step, exception.what());
  }
  return found;
}

MemoryPoint MemoryCheckpoints::share(std::size_t place) const {
  MemoryPoint point;
  std::vector<PtValue> shards;
  std::optional<Exception> damage;
  for (int rank = 0; rank < context_.world_size(); ++rank) {
    const bool is_mine = rank == context_.rank();
    const std::span<const std::byte> bytes = is_mine ? files_[place].bytes() : std::span<const std::byte>();
    const std::string theirs = runtime::share_bytes(context_, bytes, rank);
    try {
      const PtValue kept = runtime::value_or_throw(
          runtime::KeptFile::parse(is_mine ? bytes : std::as_bytes(std::span(theirs))));
      shards.push_back(kept.as_dict().at(kCommon));
      const PtDict& own = kept.as_dict().at(kOwn).as_dict();
      if (is_mine) point.state.own = own;
    } catch (const Exception& exception) {
      damage = Exception(exception.code(), fmt::format("rank {}: {}", rank, exception.what()));
    }
  }
  if (damage) throw Exception(*damage);
  point.state.common = join_shards(shards).as_dict();
  point.timeline = continued(point.state.common);
  return point;
}

void MemoryCheckpoints::forget() {
  for (runtime::KeptFile& file : files_) file.clear();
}

}  // namespace ddprun::training
