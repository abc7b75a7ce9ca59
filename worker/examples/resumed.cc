// A checkpoint after every step, written while the next ones run; started again, the program goes on where it was.
//
//   resumed FOLDER STEPS
#include <ddprun/checkpointer.h>
#include <ddprun/distributed_data_parallel.h>
#include <ddprun/optim.h>
#include <ddprun/rank_zero.h>
#include <ddprun/record.h>

#include <torch/torch.h>

#include <string>

int train(const std::string& folder, std::int64_t steps) {
  ddprun::Context context = ddprun::init();
  torch::manual_seed(7);
  torch::nn::Linear model(10, 1);
  model->to(context.device());
  ddprun::DistributedDataParallel ddp(model, context);
  ddprun::FusedSgd optimizer(ddp.parameters(), {.lr = 0.01, .momentum = 0.9});

  ddprun::Checkpointer checkpoints(context, {.folder = folder, .keep = 2});
  std::int64_t step = 0;
  if (const auto last = checkpoints.newest()) {
    const ddprun::PtDict& state = last->value.as_dict();
    ddprun::load_state_dict(*model, state.at("model").as_dict());
    ddprun::load_state_dict(optimizer, state.at("optimizer").as_dict());
    step = last->entry.step;
  }
  ddprun::rank_zero_out(context) << "begins at step " << step << "\n";
  while (step < steps) {
    torch::manual_seed(1000 * step + context.rank());
    const auto input = torch::randn({32, 10}).to(context.device());
    optimizer.zero_grad();
    (ddp(input) - input.sum(1, true)).square().mean().backward();
    optimizer.step();
    ddprun::PtDict state;
    state.set("model", ddprun::state_dict(*model));
    state.set("optimizer", ddprun::state_dict(optimizer));
    checkpoints.save(++step, state);
  }
  checkpoints.flush();
  ddprun::rank_zero_out(context) << "weights " << model->weight.sum().item<float>() << " after step " << step
                                 << "\n";
  context.shutdown();
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return ddprun::record([&] { return train(argv[1], std::stoll(argv[2])); });
}
