#include "tests/bench/turns.h"

#include <ddprun/collectives.h>

#include <torch/types.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>

namespace ddprun::bench {
namespace {

/// The next line of rank 0's file, on every rank; empty at its end.
std::string next_line(const Context& context, std::istream& commands) {
  std::array<char, 128> text{};
  if (context.rank() == 0) commands.getline(text.data(), text.size());
  broadcast(Group(context.process_group()),
            torch::from_blob(text.data(), {static_cast<std::int64_t>(text.size())}, torch::kInt8));
  return text.data();
}

}  // namespace

void take_turns(const Context& context, const char* path,
                const std::function<std::string(const Turn&)>& answer) {
  std::ifstream commands;
  if (context.rank() == 0) commands.open(path);
  for (std::string line; !(line = next_line(context, commands)).empty();) {
    Turn turn;
    std::istringstream(line) >> turn.what >> turn.size >> turn.times >> turn.how;
    const std::string text = answer(turn);
    if (context.rank() != 0) continue;
    std::puts(text.c_str());
    std::fflush(stdout);
  }
}

}  // namespace ddprun::bench
