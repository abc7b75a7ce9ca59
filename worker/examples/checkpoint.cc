// Rank 0 saves, everybody waits, everybody loads onto its own device. The file is one that Python's
// torch.load opens.
#include <ddprun/checkpoint.h>
#include <ddprun/collectives.h>
#include <ddprun/distributed_data_parallel.h>
#include <ddprun/pt_file.h>
#include <ddprun/rank_zero.h>
#include <ddprun/record.h>

#include <torch/torch.h>

#include <filesystem>

int run() {
  ddprun::Context context = ddprun::init();
  const std::string path =
      (std::filesystem::temp_directory_path() / ("ddprun-example-" + context.run_id() + ".pt")).string();

  torch::manual_seed(context.rank());
  torch::nn::Linear model(10, 5);
  model->to(context.device());
  ddprun::DistributedDataParallel ddp(model, context);  // every rank now has rank 0's weights

  if (context.rank() == 0) ddprun::save_pt(path, ddprun::state_dict(*model));
  ddprun::barrier(context);  // nobody reads before it is written

  torch::nn::Linear loaded(10, 5);
  loaded->to(context.device());  // load_state_dict copies onto wherever the parameters are
  ddprun::load_state_dict(*loaded, ddprun::load_pt(path).as_dict());
  const bool is_equal = loaded->weight.equal(model->weight) && loaded->bias.equal(model->bias);
  ddprun::barrier(context);  // nobody removes before all have read
  if (context.rank() == 0) std::filesystem::remove(path);

  ddprun::rank_zero_out(context) << (is_equal ? "every rank loaded what rank 0 saved\n"
                                              : "the loaded weights differ\n");
  context.shutdown();
  return is_equal ? 0 : 1;
}

int main() { return ddprun::record(run); }
