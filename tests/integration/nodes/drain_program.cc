// A program of somebody's own that stops in good order when it is drained. Each step is a collective, so that
// a rank that stopped alone would hold up the others. drain_program [parts [still] | BACKEND DEVICE]
#include <ddprun/collectives.h>
#include <ddprun/drain.h>
#include <ddprun/init.h>
#include <ddprun/record.h>

#include <torch/types.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <string_view>

namespace {

void say(const ddprun::Context& context, const char* what, long number) {
  std::printf("rank %d %s %ld\n", context.rank(), what, number);
  std::fflush(stdout);
}

int run(const ddprun::InitOptions& options) {
  ddprun::Drain drain({.spread = std::chrono::seconds(2)});
  ddprun::Context context = ddprun::init(options);
  long step = 0;
  drain.on_drain([&] {
    ddprun::barrier(context);  // all are here
    say(context, "saved step", step);
  });
  for (bool stop = false; !stop; stop = drain.requested(context)) {
    at::Tensor ones = torch::ones({1}, context.device());
    ddprun::all_reduce(context, ones);
    if (++step == 10) say(context, "trains in pid", ::getpid());
  }
  if (!drain.is_together()) say(context, "stopped alone after step", step);
  return drain.is_together() ? 0 : 3;
}

/// Asks itself to stop in the last step of its first part; its second part makes no step where it `stands_still`.
int run_in_parts(const ddprun::InitOptions& options, bool stands_still) {
  ddprun::Context context = ddprun::init(options);
  {
    ddprun::Drain first;
    for (int step = 1; step <= 5; ++step) {
      if (step == 5) std::raise(SIGTERM);
      if (first.requested(context)) return 3;
    }
  }
  ddprun::Drain second({.patience = std::chrono::milliseconds(100)});
  while (stands_still) ::pause();
  for (long step = 1; step <= 5'000'000; ++step) {
    if (!second.requested(context)) continue;
    say(context, "stopped in its second part for signal", second.signal());
    return 0;
  }
  return 4;
}

}  // namespace

int main(int argc, char** argv) {
  ddprun::InitOptions options{.backend = "gloo", .device = "cpu"};
  if (argc > 1 && std::string_view(argv[1]) == "parts") return run_in_parts(options, argc > 2);
  if (argc > 2) options = {.backend = argv[1], .device = argv[2]};
  return ddprun::record([&] { return run(options); });
}
