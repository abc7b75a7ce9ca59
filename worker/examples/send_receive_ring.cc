// A token goes once around the ring of ranks; each adds its rank.
#include <ddprun/collectives.h>
#include <ddprun/rank_zero.h>
#include <ddprun/record.h>

#include <torch/torch.h>

int run() {
  ddprun::Context context = ddprun::init({.device = "cpu"});
  const int rank = context.rank();
  const int world = context.world_size();
  if (world == 1) {
    ddprun::rank_zero_out(context) << "a ring needs two ranks: start me with ddprun --nproc-per-node 2\n";
    return 0;
  }
  auto token = torch::zeros({1}, torch::kInt64);
  if (rank == 0) {
    ddprun::send(context, token, 1);
    ddprun::receive(context, token, world - 1);
  } else {
    ddprun::receive(context, token, rank - 1);
    token += rank;
    ddprun::send(context, token, (rank + 1) % world);
  }
  ddprun::rank_zero_out(context) << "the token came back with " << token.item<std::int64_t>() << "\n";
  context.shutdown();
  return 0;
}

int main() { return ddprun::record(run); }
