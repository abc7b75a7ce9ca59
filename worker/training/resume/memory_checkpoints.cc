#include "worker/training/resume/memory_checkpoints.h"

#include "rendezvous/base/check.h"
#include "rendezvous/base/env_contract.h"
#include "worker/runtime/checkpoint/share_pt.h"
#include "worker/runtime/throw_error.h"
#include "worker/training/resume/state_shards.h"
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
constexpr int kMemoryFormat = 6;

// The entries of what a rank keeps where it is copied.
constexpr const char* kCommon = "common";
constexpr const char* kOwn = "own";

// The first words of what ranks tell each other of what they have.
constexpr std::string_view kAnother = "another";
constexpr std::string_view kOwnMark = "own";
constexpr std::string_view kWholeMark = "whole";

/// Of one line each, "STEP ORIGIN".
std::string to_text(const MemoryMark& mark) { return std::to_string(mark.step) + " " + mark.origin; }

/// Up to the separator, which goes, too; all of it where there is none.
std::string_view cut(std::string_view& text, char separator) {
  const std::string_view first = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(text.size(), first.size() + 1));
  return first;
}

std::optional<MemoryMark> parse_mark(std::string_view text) {
  MemoryMark mark;
  const std::string_view step = cut(text, ' ');
  const char* const end = step.data() + step.size();
  const auto [rest, error] = std::from_chars(step.data(), end, mark.step);
  if (error != std::errc() || rest != end) return std::nullopt;
  mark.origin = text;
  return mark;
}

MemoryMarks parse_marks(std::string_view text) {
  MemoryMarks marks;
  while (!text.empty()) {
    std::string_view line = cut(text, '\n');
    const std::string_view kind = cut(line, ' ');
    const auto mark = parse_mark(line);
    if (mark && kind == kOwnMark) marks.own.push_back(*mark);
    if (mark && kind == kWholeMark) marks.whole = mark;
  }
  return marks;
}

const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.storage().unsafeGetStorageImpl();
}

bool has(const std::vector<MemoryMark>& marks, const MemoryMark& mark) {
  return std::find(marks.begin(), marks.end(), mark) != marks.end();
}

}  // namespace

std::optional<MemoryMark> newest_of_all(const std::vector<MemoryMarks>& by_rank, bool in_place) {
  std::optional<MemoryMark> newest;
  for (const MemoryMark& mark : by_rank.front().own) {
    const bool all_have_it = std::all_of(by_rank.begin(), by_rank.end(),
                                         [&](const MemoryMarks& marks) { return has(marks.own, mark); });
    const bool is_whole =
        !in_place || std::any_of(by_rank.begin(), by_rank.end(),
                                 [&](const MemoryMarks& marks) { return marks.whole == mark; });
    if (all_have_it && is_whole && (!newest || mark.step > newest->step)) newest = mark;
  }
  return newest;
}

// A file holds tensors row by row, so that of others (channels_last) a copy is made.
bool can_keep_in_place(const Context& context, const Options& job) {
  const Options train = job.object("train");
  return context.device().is_cpu() && context.world_size() > 1 && train.integer("virtual_ranks") == 0 &&
         !train.flag("channels_last") && train.text("non_finite") == "stop" &&
         job.integer("divergence_check") == 0;
}

MemoryCheckpoints::Files MemoryCheckpoints::open(std::string_view names) {
  std::vector<std::string> paths;
  while (!names.empty()) paths.emplace_back(cut(names, ' '));
  if (paths.size() != kKeptFiles) {
    throw Exception(ErrorCode::kConfig, fmt::format("{} names {} files; expected {}", env_name::kKeptMemory,
                                                    paths.size(), kKeptFiles));
  }
  using runtime::KeptFile;
  using runtime::value_or_throw;
  return {.own = {value_or_throw(KeptFile::open(paths[0])), value_or_throw(KeptFile::open(paths[1]))},
          .common = value_or_throw(KeptFile::open(paths[2])),
          .tensors = value_or_throw(runtime::KeptTensors::open(paths[3]))};
}

MemoryCheckpoints::MemoryCheckpoints(const Context& context, std::string_view names, const std::string& job,
                                     bool in_place)
    : context_(context),
      in_place_(in_place),
      seat_(fmt::format("{} {} {} {} of {} ", kMemoryFormat, in_place ? "in-place" : "copied",
                        std::hash<std::string>()(job), context.rank(), context.world_size())),
      files_(open(names)) {}

std::string MemoryCheckpoints::label_of(std::int64_t step, const Timeline& line) const {
  const std::string restarts = std::to_string(context_.restart_count());
  return seat_ + to_text({.origin = line.id + " " + restarts, .step = step});
}

void MemoryCheckpoints::check(const Result<void>& done) {
  if (done) return;
  is_broken_ = true;
  runtime::throw_error(done.error());
}

void MemoryCheckpoints::confirm_own() {
  files_.own[next_].confirm();
  next_ = (next_ + 1) % files_.own.size();
}

void MemoryCheckpoints::save(std::int64_t step, const Timeline& line, const RankState& state) {
  if (is_broken_) return;
  PtDict kept;
  kept.set(kCommon, shard_of(state.common, context_.rank(), context_.world_size()));
  kept.set(kOwn, state.own);
  check(files_.own[next_].write(label_of(step, line), std::move(kept)));
}

void MemoryCheckpoints::confirm() {
  if (!is_broken_) confirm_own();
}

void MemoryCheckpoints::watch(const Tensors& updated) {
  watched_.clear();
  for (const at::Tensor& tensor : updated)
    watched_.push_back({.tensor = tensor, .version = tensor._version(), .storage = storage_of(tensor)});
}

void MemoryCheckpoints::save_own(std::int64_t step, const Timeline& line, PtDict own) {
  if (is_broken_) return;
  for (const auto& [tensor, version, storage] : watched_) {
    if (version == tensor._version() && storage == storage_of(tensor)) continue;
    if (!restless_.insert(storage_of(tensor)).second) continue;
    if (!files_.tensors.place_of(tensor.storage().data())) continue;
    files_.common.clear();  // which it was a part of
    files_.tensors.release(tensor);
  }
  check(files_.own[next_].write(label_of(step, line), std::move(own)));
  confirm_own();
}

void MemoryCheckpoints::begin_update() { files_.common.clear(); }

// In most steps all are there already.
MemoryCheckpoints::Tensors MemoryCheckpoints::to_adopt(const Tensors& updated) const {
  Tensors calm;
  for (const at::Tensor& tensor : updated) {
    if (!files_.tensors.would_adopt(tensor) || restless_.contains(storage_of(tensor))) continue;
    const bool was_watched = std::any_of(watched_.begin(), watched_.end(),
                                         [&](const Watched& one) { return one.tensor.is_same(tensor); });
    if (was_watched) calm.push_back(tensor);
  }
  return calm;
}

void MemoryCheckpoints::save_common(std::int64_t step, const Timeline& line, PtDict common,
                                    const Tensors& updated) {
  if (is_broken_) return;
  check(files_.tensors.adopt(to_adopt(updated)));
  watch(updated);
  check(files_.common.write(label_of(step, line), std::move(common), &files_.tensors));
  files_.common.confirm();
}

// Those that have taken another rank's half keep theirs before that one may lose its own; and before a rank goes on,
// all have what is their own under the mark of those halves.
void MemoryCheckpoints::save_found(const Timeline& line, const RankState& state) {
  DDPRUN_CHECK(found_step_, "there is something to keep");
  const auto keep_common = [&] {
    begin_update();
    save_common(*found_step_, line, state.common, {});
  };
  const bool is_holder = context_.rank() == found_on_;
  std::optional<Exception> trouble;
  try {
    save_own(*found_step_, line, state.own);
    if (!is_holder) keep_common();
  } catch (const Exception& exception) {
    trouble = exception;
  }
  const std::vector<std::string> troubles = all_gather_bytes(context_, trouble ? trouble->what() : "");
  if (trouble) throw Exception(*trouble);
  const bool could_all =
      std::all_of(troubles.begin(), troubles.end(), [](const std::string& words) { return words.empty(); });
  if (is_holder && could_all) keep_common();
}

std::optional<MemoryMark> MemoryCheckpoints::mark_in(const runtime::KeptFile& file) const {
  const std::string label = file.label();
  if (!label.starts_with(seat_)) return std::nullopt;
  return parse_mark(std::string_view(label).substr(seat_.size()));
}

bool MemoryCheckpoints::has_another() const {
  return std::any_of(files_.own.begin(), files_.own.end(), [&](const runtime::KeptFile& file) {
    const std::string label = file.label();
    return !label.empty() && !label.starts_with(seat_);
  });
}

std::string MemoryCheckpoints::words_of_marks() const {
  std::string words = has_another() ? fmt::format("{}\n", kAnother) : std::string();
  for (const runtime::KeptFile& file : files_.own) {
    if (const auto mark = mark_in(file)) words += fmt::format("{} {}\n", kOwnMark, to_text(*mark));
  }
  if (const auto mark = mark_in(files_.common)) words += fmt::format("{} {}\n", kWholeMark, to_text(*mark));
  return words;
}

MemoryCheckpoints::Found MemoryCheckpoints::find_after(std::int64_t step) {
  std::vector<MemoryMarks> by_rank;
  Found found;
  for (const std::string& theirs : all_gather_bytes(context_, words_of_marks())) {
    if (theirs.starts_with(kAnother))
      found.passed_over = "what is kept is of another job file or number of ranks";
    by_rank.push_back(parse_marks(theirs));
  }
  const std::optional<MemoryMark> newest = newest_of_all(by_rank, in_place_);
  const std::optional<MemoryMark> without = newest_of_all(by_rank, /*in_place=*/false);
  if (!newest && without && without->step > step)
    found.passed_over =
        fmt::format("all ranks ended before one had ended its update of step {}", without->step);
  const bool has_any = std::any_of(by_rank.begin(), by_rank.end(), [&](const MemoryMarks& marks) {
    return std::any_of(marks.own.begin(), marks.own.end(),
                       [&](const MemoryMark& mark) { return mark.step > step; });
  });
  if (!newest && has_any && found.passed_over.empty())
    found.passed_over = "there is no step of which every rank has kept its part";
  if (!newest || newest->step <= step) return found;
  const std::size_t place = mark_in(files_.own[0]) == newest ? 0 : 1;
  const auto holder = std::find_if(by_rank.begin(), by_rank.end(),
                                   [&](const MemoryMarks& marks) { return marks.whole == newest; });
  try {
    found.point =
        in_place_ ? take_whole(place, static_cast<int>(holder - by_rank.begin())) : join_shares(place);
    found.point->step = newest->step;
    found.point->timeline = continued(found.point->state.common);
    found.passed_over.clear();
    found_step_ = newest->step;
    found_on_ = static_cast<int>(holder - by_rank.begin());
    next_ = (place + 1) % files_.own.size();
  } catch (const Exception& exception) {
    if (exception.code() != ErrorCode::kCorrupt) throw;
    found.point.reset();
    found.passed_over =
        fmt::format("what is kept of step {} is damaged ({})", newest->step, exception.what());
  }
  return found;
}

MemoryPoint MemoryCheckpoints::join_shares(std::size_t place) const {
  MemoryPoint point;
  std::vector<PtValue> shards;
  std::optional<Exception> damage;
  for (int rank = 0; rank < context_.world_size(); ++rank) {
    const bool is_mine = rank == context_.rank();
    const std::span<const std::byte> bytes =
        is_mine ? files_.own[place].bytes() : std::span<const std::byte>();
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
  return point;
}

MemoryPoint MemoryCheckpoints::take_whole(std::size_t place, int from_rank) const {
  MemoryPoint point;
  const bool is_mine = from_rank == context_.rank();
  const std::span<const std::byte> nothing;
  const std::span<const std::byte> state = is_mine ? files_.common.bytes() : nothing;
  runtime::KeptMapping mapping;
  if (is_mine) mapping = runtime::value_or_throw(files_.tensors.bytes());
  const std::span<const std::byte> tensors = mapping.bytes();
  const std::string their_state = runtime::share_bytes(context_, state, from_rank);
  const std::string their_tensors = runtime::share_bytes(context_, tensors, from_rank);
  std::string damage;
  try {
    point.state.common =
        runtime::value_or_throw(
            runtime::KeptFile::parse(is_mine ? state : std::as_bytes(std::span(their_state)),
                                     is_mine ? tensors : std::as_bytes(std::span(their_tensors))))
            .as_dict();
  } catch (const Exception& exception) {
    if (exception.code() != ErrorCode::kCorrupt) throw;
    damage = fmt::format("rank {}: {}", from_rank, exception.what());
  }
  try {
    point.state.own = runtime::value_or_throw(runtime::KeptFile::parse(files_.own[place].bytes())).as_dict();
  } catch (const Exception& exception) {
    if (exception.code() != ErrorCode::kCorrupt) throw;
    damage = fmt::format("rank {}: {}", context_.rank(), exception.what());
  }
  // Each rank has read its own, and all are to know.
  for (const std::string& theirs : all_gather_bytes(context_, damage)) {
    if (!theirs.empty()) throw Exception(ErrorCode::kCorrupt, theirs);
  }
  return point;
}

void MemoryCheckpoints::forget() {
  for (runtime::KeptFile& file : files_.own) file.clear();
  files_.common.clear();
}

}  // namespace ddprun::training
