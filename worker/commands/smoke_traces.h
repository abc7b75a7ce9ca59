#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::commands {

/// What runs of a smoke test leave on the disk, read.

std::string content_of(const std::string& path);

/// "step-00000007.pt" → 7; none: no checkpoint's name.
std::optional<std::int64_t> step_of(const std::string& name);

/// Steps of the checkpoints of the run with that output folder, in order.
std::vector<std::int64_t> steps_of_checkpoints(const std::string& output);
std::string checkpoint_path(const std::string& output, std::int64_t step);

/// A checkpoint as the bytes of a file, written to `scratch`, but for what it says of where it comes from.
/// Errors  Exception kOs, kCorrupt.
std::string content_without_line(const std::string& path, const std::string& scratch);

/// ", loss 2.3000 → 1.9000", of the first and the last epoch; empty: none is known.
std::string losses_in_words(const std::string& output);

/// By the launcher's events; -1: it has started no such rank.
int pid_of_rank(int rank, const std::string& events_path);

/// What a program died of, of what it said on stderr: the trainer's own words, else the launcher's first line, else the
/// last; empty: not a word. Pure.
std::string last_words(std::string_view err);

}  // namespace ddprun::commands
