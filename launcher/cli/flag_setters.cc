#include "launcher/cli/flag_setters.h"

#include "launcher/text/python_numbers.h"
#include "launcher/text/text.h"
#include "rendezvous/config/override.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

namespace ddprun::launcher {
namespace {

Error refusal(std::string words) { return {ErrorCode::kUsage, std::move(words)}; }

Result<void> refuse_plug_in(std::string_view accepted, FlagValues values, std::string_view alternative) {
  if (values[0] == accepted) return ok();
  return refusal(
      fmt::format("\"{}\" is a Python plug-in, which ddprun cannot load; {}", values[0], alternative));
}

Result<void> store_endpoint(std::optional<Endpoint>& member, FlagValues values, LoneWord lone) {
  Result<Endpoint> endpoint = parse_endpoint(values[0], lone);
  if (!endpoint) return endpoint.error();
  member = std::move(*endpoint);
  return ok();
}

}  // namespace

Result<void> set_nodes(membership::JobSpec& spec, std::string_view text) {
  const Result<NodeRange> nodes = parse_node_range(text);
  if (!nodes) return nodes.error();
  spec.min_nodes = nodes->lowest;
  spec.max_nodes = nodes->highest;
  return ok();
}

Result<void> set_secret_file(Options& options, FlagValues values) {
  Result<std::string> file = parse_file_name(values[0]);
  if (!file) return file.error();
  options.secret.file = std::move(*file);
  return ok();
}

Result<void> set_rdzv_endpoint(Options& options, FlagValues values) {
  options.rdzv_endpoint.reset();
  if (values[0].empty()) return ok();
  if (values[0].rfind(':') == 0)
    return refusal(fmt::format("the host is missing in \"{}\"; write HOST{}", values[0], values[0]));
  return store_endpoint(options.rdzv_endpoint, values, LoneWord::kHost);
}

Result<void> set_metrics(Options& options, FlagValues values) {
  return store_endpoint(options.metrics, values, LoneWord::kPort);
}

Result<void> add_override(Options& options, FlagValues values) {
  Result<config::Override> change = config::parse_override(values[0]);
  if (!change) return refusal(change.error().message());
  options.config_overrides.push_back(std::move(*change));
  return ok();
}

Result<void> set_debug_rank(Options& options, FlagValues values) {
  const Result<int> rank = parse_integer(values[0], 0, std::numeric_limits<int>::max());
  if (!rank) return rank.error();
  options.debug_rank = *rank;
  std::vector<std::string> command;
  for (const std::string_view word : split(values[1], ' ')) {
    if (!word.empty()) command.emplace_back(word);
  }
  if (command.empty()) return refusal("expected a debugger such as gdb, pdb or \"valgrind -q\", got \"\"");
  if (command == std::vector<std::string>{"gdb"}) command.emplace_back("--args");
  if (command == std::vector<std::string>{"lldb"}) command.emplace_back("--");
  options.debug_command = std::move(command);
  return ok();
}

Result<void> check_monitor_interval(Options&, FlagValues values) {
  if (python_float(values[0])) return ok();
  const Result<std::chrono::milliseconds> interval = parse_duration(values[0]);
  return interval ? ok() : Result<void>(interval.error());
}

Result<void> check_start_method(Options&, FlagValues values) {
  const Result<std::string> method = parse_start_method(values[0]);
  return method ? ok() : Result<void>(method.error());
}

Result<void> check_event_log_handler(Options&, FlagValues values) {
  return refuse_plug_in("null", values, "use --events FILE, which writes the job's events as JSON lines");
}

Result<void> check_logs_specs(Options&, FlagValues values) {
  return refuse_plug_in("default", values, "use --log-dir, --redirects and --tee");
}

}  // namespace ddprun::launcher
