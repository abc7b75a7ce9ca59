#include "launcher/cleanup/resource_tracker.h"

#include "launcher/process/process_table.h"
#include "rendezvous/base/read_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace ddprun::launcher {

bool is_resource_tracker(std::string_view command_line) {
  constexpr std::string_view kTracker = "from multiprocessing.resource_tracker import main";
  constexpr std::string_view kManager = "torch_shm_manager";
  const std::string_view program = command_line.substr(0, command_line.find('\0'));
  const std::string_view name = program.substr(program.rfind('/') + 1);
  if (name == kManager) return true;
  // python -c 'from multiprocessing.resource_tracker import main;main(5)': the word is the argument of -c.
  const std::size_t code = command_line.find(kTracker);
  return code != std::string_view::npos &&
         command_line.substr(0, code).ends_with(std::string_view("-c\0", 3));
}

bool is_resource_tracker(pid_t pid) {
  return is_resource_tracker(read_text(fmt::format("/proc/{}/cmdline", pid)));
}

}  // namespace ddprun::launcher
