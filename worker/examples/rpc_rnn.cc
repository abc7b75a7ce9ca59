// ddprun --nproc-per-node 2 ./rpc_rnn
//
// A recurrent network whose table of words is too large for this rank, so another one has it: looked up by a call,
// trained by a backward over both ranks. The first gradients are those of one process, to the last bit.
#include <ddprun/dist_autograd.h>
#include <ddprun/distributed_optimizer.h>
#include <ddprun/init.h>
#include <ddprun/record.h>
#include <ddprun/rpc.h>

#include <torch/torch.h>

#include <iostream>
#include <vector>

namespace rpc = ddprun::rpc;

using Parameters = std::vector<rpc::RRef<at::Tensor>>;

constexpr std::int64_t kWords = 20, kWidth = 8, kLength = 6;

torch::nn::Embedding make_table() {
  torch::manual_seed(11);
  return torch::nn::Embedding(kWords, kWidth);
}

torch::nn::Embedding& table_here() {
  static auto* const table = new torch::nn::Embedding(make_table());
  return *table;
}

const rpc::Function<at::Tensor(at::Tensor)> look_up("rnn::look_up", [](const at::Tensor& words) {
  return table_here()(words);
});
const rpc::Function<rpc::RRef<at::Tensor>()> table_parameter("rnn::table", [] {
  return rpc::RRef<at::Tensor>::of(table_here()->weight);
});
const rpc::Function<at::Tensor(std::int64_t)> table_gradient("rnn::table_gradient", [](std::int64_t context) {
  return ddprun::dist_autograd::gradients_in(context).at(0).second;
});

/// Says whether a sentence has more small words than large ones.
struct Reader : torch::nn::Module {
  torch::nn::LSTM recurrent =
      register_module("recurrent", torch::nn::LSTM(torch::nn::LSTMOptions(kWidth, 16).batch_first(true)));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(16, 1));

  at::Tensor loss(const at::Tensor& embedded, const at::Tensor& target) {
    const at::Tensor last = std::get<0>(recurrent(embedded)).select(1, -1);
    return torch::binary_cross_entropy_with_logits(head(last).squeeze(1), target);
  }
};

struct Sentences {
  at::Tensor words, target;
};

Sentences make_sentences() {
  const at::Tensor words = torch::randint(kWords, {32, kLength}, torch::kLong);
  return {words, ((words < kWords / 2).sum(1) > kLength / 2).to(torch::kFloat)};
}

bool first_gradients_are_equal(Reader& reader, const Sentences& sentences) {
  torch::nn::Embedding table = make_table();
  reader.loss(table(sentences.words), sentences.target).backward();
  ddprun::dist_autograd::Context pass;
  pass.backward({reader.loss(rpc::rpc_sync("table", look_up, sentences.words), sentences.target)});
  bool equal = torch::equal(rpc::rpc_sync("table", table_gradient, pass.id()), table->weight.grad());
  for (at::Tensor parameter : reader.parameters()) {
    equal = equal && torch::equal(pass.gradient(parameter), parameter.grad());
    parameter.mutable_grad() = at::Tensor();
  }
  return equal;
}

int train() {
  torch::manual_seed(12);
  Reader reader;
  const bool equal = first_gradients_are_equal(reader, make_sentences());
  Parameters everywhere{rpc::rpc_sync("table", table_parameter)};
  for (const at::Tensor& parameter : reader.parameters())
    everywhere.push_back(rpc::RRef<at::Tensor>::of(parameter));
  ddprun::DistributedOptimizer optimizer(everywhere, ddprun::FusedAdamOptions{.lr = 0.01});
  double first = 0, last = 0;
  for (int step = 0; step < 120; ++step) {
    const Sentences sentences = make_sentences();
    ddprun::dist_autograd::Context pass;
    const at::Tensor loss = reader.loss(rpc::rpc_sync("table", look_up, sentences.words), sentences.target);
    pass.backward({loss});
    optimizer.step(pass);
    (step == 0 ? first : last) = loss.item<double>();
  }
  std::cout << "loss " << first << " -> " << last << "; first gradients " << (equal ? "equal" : "NOT equal")
            << " to one process's, to the last bit" << std::endl;
  return equal && last < first / 2 ? 0 : 1;
}

int run() {
  ddprun::Context context = ddprun::init({.device = "cpu"});
  torch::set_num_threads(1);
  if (context.world_size() != 2) {
    std::cout << "the table needs a rank of its own: start me with ddprun --nproc-per-node 2" << std::endl;
    return 0;
  }
  table_here();
  rpc::init_rpc(context.rank() == 0 ? "reader" : "table", context);
  const int code = context.rank() == 0 ? train() : 0;
  rpc::shutdown();
  context.shutdown();
  return code;
}

int main() { return ddprun::record(run); }
