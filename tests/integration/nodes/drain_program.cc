// A program of somebody's own that stops in good order when it is drained. Each step is a collective, so that
// a rank that stopped alone would hold up the others. drain_program [BACKEND DEVICE]
#include <ddprun/collectives.h>
#include <ddprun/drain.h>
#include <ddprun/init.h>
#include <ddprun/record.h>

#include <torch/torch.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

namespace {

void say(const ddprun::Context& context, const char* what, long number) {
  std::printf("rank %d %s %ld\n", context.rank(), what, number);
  std::fflush(stdout);
}

int run(const ddprun::InitOptions& options) {
  ddprun::Drain drain({.meeting = std::chrono::milliseconds(1000)});
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

}  // namespace

int main(int argc, char** argv) {
  ddprun::InitOptions options{.backend = "gloo", .device = "cpu"};
  if (argc > 2) options = {.backend = argv[1], .device = argv[2]};
  return ddprun::record([&] { return run(options); });
}
