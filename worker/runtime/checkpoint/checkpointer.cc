#include "rendezvous/base/clock.h"
#include "worker/runtime/checkpoint/best_checkpoints.h"
#include "worker/runtime/checkpoint/live_folder.h"
#include "worker/runtime/checkpoint/share_pt.h"
#include "worker/runtime/checkpoint/staging.h"
#include "worker/runtime/checkpoint/unfinished.h"
#include "worker/runtime/checkpoint/whole_file.h"
#include "worker/runtime/checkpoint/work_queue.h"
#include "worker/runtime/throw_error.h"
#include <ddprun/checkpointer.h>
#include <ddprun/collectives.h>
#include <ddprun/fail_together.h>
#include <ddprun/pt_file.h>

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <exception>
#include <iterator>
#include <mutex>
#include <utility>

namespace ddprun {
namespace {

using runtime::BestCheckpoints;
using runtime::Staging;
using runtime::Unfinished;
using runtime::WorkQueue;

/// One is written while the next one waits.
constexpr std::size_t kCopies = 2;

/// How the writing of a checkpoint ended.
struct Written {
  std::int64_t step = 0;
  std::vector<SavedCheckpoint> saved;
  std::optional<Exception> trouble;
};

}  // namespace

struct Checkpointer::State {
  State(Group given, CheckpointerOptions wanted)
      : group(std::move(given)),
        options(std::move(wanted)),
        newest(options.folder, options.keep),
        best(options.folder, options.keep_best,
             {.name = options.best_by,
              .better = options.higher_is_better ? Metric::Better::kHigher : Metric::Better::kLower}) {}

  [[nodiscard]] bool writes() const { return group.rank() == 0; }

  // On the writer's thread.
  void write(std::int64_t step, const PtValue& value, const SaveAs& as, TimePoint begin) {
    Written written{.step = step};
    const auto note_saved = [&](const std::string& path, bool is_best) {
      written.saved.push_back({step, path, is_best, to_seconds(BootClock::now() - begin)});
    };
    try {
      std::string path;
      if (as.newest) note_saved(path = newest.save(step, value), false);
      const auto among_best = as.best ? best.save(step, *as.best, value, path) : std::nullopt;
      if (among_best) note_saved(*among_best, true);
    } catch (const Exception& exception) {
      written.trouble = exception;
    } catch (const std::exception& exception) {
      written.trouble = Exception(ErrorCode::kOs, exception.what());
    }
    note(std::move(written));
  }

  void note(Written written) {
    const std::lock_guard lock(mutex);
    done.push_back(std::move(written));
    has_done = true;
  }

  void tell(const Written& written) const {
    for (const SavedCheckpoint& saved : written.saved) {
      if (options.on_saved) options.on_saved(saved);
    }
    if (!written.trouble) return;
    if (!options.on_failed) throw *written.trouble;
    options.on_failed(written.step, *written.trouble);
  }

  void poll() {
    if (!has_done.exchange(false)) return;
    std::vector<Written> all;
    {
      const std::lock_guard lock(mutex);
      all.swap(done);
    }
    for (auto written = all.begin(); written != all.end(); ++written) {
      try {
        tell(*written);
      } catch (...) {
        keep_untold({std::make_move_iterator(written + 1), std::make_move_iterator(all.end())});
        throw;
      }
    }
  }

  void say_untold() {
    for (const Written& written : done) {
      if (!written.trouble) continue;
      std::fputs(fmt::format("ddprun: the checkpoint of step {} is lost: {}\n", written.step,
                             written.trouble->what())
                     .c_str(),
                 stderr);
    }
  }

  // The copies are used in turns: the one behind the one that is being written is free again.
  void drop_waiting() { next_copy = (next_copy + kCopies - queue.drop_waiting()) % kCopies; }

  void keep_untold(std::vector<Written> untold) {
    if (untold.empty()) return;
    const std::lock_guard lock(mutex);
    done.insert(done.begin(), std::make_move_iterator(untold.begin()), std::make_move_iterator(untold.end()));
    has_done = true;
  }

  Group group;
  CheckpointerOptions options;
  CheckpointDirectory newest;
  BestCheckpoints best;
  std::array<Staging, kCopies> copies;
  std::size_t next_copy = 0;
  std::mutex mutex;
  std::vector<Written> done;  ///< under the mutex
  std::atomic<bool> has_done = false;
  WorkQueue queue{kCopies};  ///< ends before what its work uses
};

Checkpointer::Checkpointer(Group group, CheckpointerOptions options)
    : state_(std::make_unique<State>(std::move(group), std::move(options))) {}
Checkpointer::~Checkpointer() {
  if (!state_) return;
  state_->queue.wait();
  state_->say_untold();
}
Checkpointer::Checkpointer(Checkpointer&&) noexcept = default;

void Checkpointer::save(std::int64_t step, const PtValue& value, const SaveAs& as) {
  State& state = *state_;
  if (!state.writes()) return;
  const TimePoint begin = BootClock::now();
  if (as.is_last) state.drop_waiting();
  state.queue.wait_for_room();  // then the older copy is nobody's
  const PtValue copy = state.copies[state.next_copy].copy(value);
  try {
    state.queue.add([&state, step, copy, as, begin,
                     not_written = std::make_shared<Unfinished>()] { state.write(step, copy, as, begin); },
                    /*may_be_dropped=*/!as.best);
    state.next_copy = (state.next_copy + 1) % kCopies;
  } catch (const Exception& exception) {  // nobody writes it, which is told as where the disk refuses one
    state.note({.step = step, .trouble = exception});
  }
  state.poll();
}

void Checkpointer::poll() { state_->poll(); }

void Checkpointer::wait_for_room() { state_->queue.wait_for_room(); }

void Checkpointer::drain() {
  state_->queue.wait();
  state_->poll();
}

void Checkpointer::flush() {
  fail_together(state_->group, [this] { drain(); });
}

std::optional<CheckpointDirectory::Loaded> Checkpointer::newest(
    const std::function<void(const CheckpointDirectory::Entry& entry, const std::string& why)>& skipped) {
  State& state = *state_;
  const Group& group = state.group;
  std::optional<CheckpointDirectory::Loaded> loaded;
  std::optional<runtime::WholeFile> file;
  fail_together(group, [&] {
    if (!state.writes()) return;
    drain();
    int damaged = 0;
    const auto read =
        [&](const CheckpointDirectory::Entry& entry) -> std::optional<CheckpointDirectory::Loaded> {
      try {
        auto content = runtime::value_or_throw(runtime::WholeFile::read(entry.path));
        CheckpointDirectory::Loaded whole{entry, parse_pt(content.bytes(), entry.path)};
        file.emplace(std::move(content));
        return whole;
      } catch (const Exception& exception) {
        if (exception.code() != ErrorCode::kCorrupt) throw;
        ++damaged;
        if (skipped) skipped(entry, exception.what());
        return std::nullopt;
      }
    };
    loaded = runtime::first_of_live_folder([&] { return state.newest.list(); }, read);
    if (loaded || damaged == 0) return;
    throw Exception(ErrorCode::kCorrupt,
                    fmt::format("no checkpoint in {} is whole ({} tried); move them away to begin anew",
                                state.options.folder, damaged));
  });
  if (group.size() == 1) return loaded;
  const std::string path = broadcast_bytes(group, loaded ? loaded->entry.path : "");
  if (path.empty()) return std::nullopt;
  const std::string step = broadcast_bytes(group, loaded ? std::to_string(loaded->entry.step) : "");
  PtValue value =
      runtime::share_pt(group, file ? file->bytes() : std::span<const std::byte>(), path, /*from_rank=*/0);
  if (!loaded) loaded = CheckpointDirectory::Loaded{{std::stoll(step), path}, std::move(value)};
  return loaded;
}

bool Checkpointer::is_among_best(std::int64_t step, double value) const {
  return state_->best.wants(step, value);
}

std::vector<std::string> Checkpointer::best() const {
  std::vector<std::string> paths;
  for (const BestCheckpoints::Entry& entry : state_->best.list()) paths.push_back(entry.path);
  return paths;
}

}  // namespace ddprun
