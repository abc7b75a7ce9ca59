// ddprun --nproc-per-node 3 ./rpc_actors
//
// A learner on rank 0 and actors on the others, each with a world of its own, a corridor with a prize at its end, which
// stays where it is: the learner has a reference to it, and calls it with what it knows so far.
#include <ddprun/init.h>
#include <ddprun/record.h>
#include <ddprun/rpc.h>

#include <torch/custom_class.h>
#include <torch/torch.h>

#include <iostream>
#include <string>
#include <vector>

namespace rpc = ddprun::rpc;

constexpr std::int64_t kCells = 8;
constexpr double kLearningRate = 0.5, kDiscount = 0.9, kCuriosity = 0.3;

/// From the first cell to the last; every step costs.
struct Corridor : torch::CustomClassHolder {
  std::int64_t cell = 0;

  /// Goes left (0) or right (1); the reward, and whether the prize is found.
  double step(std::int64_t action) {
    cell = std::max<std::int64_t>(0, cell + (action == 1 ? 1 : -1));
    return is_over() ? 1 : -0.01;
  }
  [[nodiscard]] bool is_over() const { return cell == kCells - 1; }
};
const auto registered = torch::class_<Corridor>("actors", "Corridor");
using CorridorPtr = c10::intrusive_ptr<Corridor>;

std::int64_t choose(const at::Tensor& values, std::int64_t cell, double curiosity) {
  if (torch::rand({1}).item<double>() < curiosity) return torch::randint(2, {1}).item<std::int64_t>();
  return values[cell].argmax().item<std::int64_t>();
}

const rpc::Function<rpc::RRef<CorridorPtr>(std::int64_t)> make_corridor(
    "actors::make", [](std::int64_t seed) {
      torch::manual_seed(seed);
      return rpc::RRef<CorridorPtr>::of(c10::make_intrusive<Corridor>());
    });

/// One episode: rows of cell, action, reward, next cell.
const rpc::Function<at::Tensor(rpc::RRef<CorridorPtr>, at::Tensor, double)> play(
    "actors::play", [](const rpc::RRef<CorridorPtr>& reference, const at::Tensor& values, double curiosity) {
      const CorridorPtr corridor = reference.local_value();
      corridor->cell = 0;
      std::vector<at::Tensor> rows;
      while (!corridor->is_over() && rows.size() < 200) {
        const std::int64_t from = corridor->cell;
        const std::int64_t action = choose(values, from, curiosity);
        const double reward = corridor->step(action);
        rows.push_back(torch::tensor({static_cast<double>(from), static_cast<double>(action), reward,
                                      static_cast<double>(corridor->cell)}));
      }
      return torch::stack(rows);
    });

void learn_from(at::Tensor& values, const at::Tensor& episode) {
  for (std::int64_t i = episode.size(0); i-- > 0;) {  // the prize is at the end
    const at::Tensor row = episode[i];
    const auto from = row[0].item<std::int64_t>(), action = row[1].item<std::int64_t>(),
               to = row[3].item<std::int64_t>();
    const double after = to == kCells - 1 ? 0 : values[to].max().item<double>();
    values[from][action] +=
        kLearningRate * (row[2].item<double>() + kDiscount * after - values[from][action].item<double>());
  }
}

int learn() {
  std::vector<rpc::RRef<CorridorPtr>> corridors;
  for (const rpc::Worker& worker : rpc::workers()) {
    if (worker.name != "learner") corridors.push_back(rpc::rpc_sync(worker.name, make_corridor, worker.id));
  }
  at::Tensor values = torch::zeros({kCells, 2}, torch::kDouble);
  for (int round = 0; round < 20; ++round) {
    std::vector<rpc::Future<at::Tensor>> episodes;
    for (const auto& corridor : corridors)
      episodes.push_back(corridor.rpc_async(play, values.clone(), kCuriosity));
    for (const auto& episode : episodes) learn_from(values, episode.wait());
  }
  const std::int64_t steps = corridors.front().rpc_sync(play, values, 0.0).size(0);
  std::cout << "steps to the prize: " << steps << " of at least " << kCells - 1 << std::endl;
  return steps == kCells - 1 ? 0 : 1;
}

int run() {
  ddprun::Context context = ddprun::init({.device = "cpu"});
  torch::set_num_threads(1);
  if (context.world_size() == 1) {
    std::cout << "a learner needs an actor: start me with ddprun --nproc-per-node 3" << std::endl;
    return 0;
  }
  rpc::init_rpc(context.rank() == 0 ? "learner" : "actor" + std::to_string(context.rank()), context);
  const int code = context.rank() == 0 ? learn() : 0;
  rpc::shutdown();
  context.shutdown();
  return code;
}

int main() { return ddprun::record(run); }
