#pragma once

#include "launcher/cli/options.h"
#include "rendezvous/base/result.h"

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

/// The grammars of flag values. Every function takes the text alone; its error says what was expected and
/// got, and the caller puts the flag or variable it came from in front.
namespace ddprun::launcher {

/// The name of a file that must be there: not empty, as an unset variable of the shell leaves it.
Result<std::string> parse_file_name(const std::string& text);

/// An integer in [lowest, highest], as Python's int() reads it.
Result<int> parse_integer(std::string_view text, int lowest, int highest);

/// Seconds as Python's float() reads them ("90", "1.5", "5e-2"), or with units: "500ms", "90s", "30m",
/// "1h30m", "2d".
Result<std::chrono::milliseconds> parse_duration(std::string_view text);

/// A duration that would make no sense as 0.
Result<std::chrono::milliseconds> parse_time_limit(std::string_view text);

/// torchrun's Std grammar: 0, 1, 2 or 3 for all ranks, or "0:1,12:3"; local ranks may have several digits.
Result<StreamMap> parse_stream_map(std::string_view text);

/// Non-negative integers: "0,1,12".
Result<std::vector<int>> parse_rank_list(std::string_view text);

/// Exit codes: "93,94"; empty for none.
Result<std::vector<int>> parse_exit_codes(std::string_view text);

/// "apple,orange"; ",," is a comma inside a word.
std::vector<std::string> parse_words(std::string_view text);

/// --rdzv-conf: "key=value,key=value"; quotes around a value are taken off. Errors also those of
/// membership::parse_rdzv_conf.
Result<membership::RdzvConf> parse_rdzv_conf(std::string_view text);

/// A number of workers, or auto, cpu, gpu or xpu.
Result<WorkerCount> parse_worker_count(std::string_view text);

/// What an endpoint without a colon is.
enum class LoneWord { kHost, kPort };

/// "HOST:PORT", "[::1]:PORT", and one of them alone. A lone port, or ":PORT", has no host: every address.
Result<Endpoint> parse_endpoint(std::string_view text, LoneWord lone);

struct NodeRange {
  int lowest = 1;
  int highest = 1;
};

/// "N" or "MIN:MAX" with 1 ≤ MIN ≤ MAX ≤ membership::kMaxNodes.
Result<NodeRange> parse_node_range(std::string_view text);

/// A PET_ variable that switches something: an integer, 0 is off.
Result<bool> parse_switch(std::string_view text);

/// A word of `choices`, or an error that lists them and suggests the nearest.
Result<std::string> parse_choice(std::string_view text, const std::vector<std::string>& choices);

// The same, of a list that is separated by spaces.
inline constexpr std::string_view kBackends = "auto nccl gloo shm";
inline constexpr std::string_view kNumaBindings = "node socket exclusive core-complex";
inline constexpr std::string_view kRdzvBackends = "static c10d";
inline constexpr std::string_view kStartMethods = "spawn fork forkserver";

Result<std::string> parse_backend(std::string_view text);
Result<NumaBinding> parse_numa_binding(std::string_view text);
Result<RdzvBackend> parse_rdzv_backend(std::string_view text);
Result<std::string> parse_start_method(std::string_view text);

}  // namespace ddprun::launcher
