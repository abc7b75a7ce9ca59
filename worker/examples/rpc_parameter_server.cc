// ddprun --nproc-per-node 3 ./rpc_parameter_server FOLDER
//
// Rank 0 keeps the parameters of a classifier of digits, the other ranks train: each takes the newest parameters, and
// sends gradients, which the server applies as they come. FOLDER has MNIST's four files, unpacked. A trainer may be in
// Python: rpc_trainer.py.
#include <ddprun/init.h>
#include <ddprun/optim.h>
#include <ddprun/record.h>
#include <ddprun/rpc.h>

#include <torch/torch.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace rpc = ddprun::rpc;

constexpr int kSteps = 150, kBatch = 64;

torch::nn::Sequential make_model() {
  torch::manual_seed(1);
  return torch::nn::Sequential(torch::nn::Linear(784, 64), torch::nn::ReLU(), torch::nn::Linear(64, 10));
}

struct Server {
  std::mutex mutex;
  torch::nn::Sequential model = make_model();
  ddprun::FusedSgd optimizer{model->parameters(), {.lr = 0.1}};

  static Server& one() {
    static auto* const server = new Server;
    return *server;
  }
};

std::vector<at::Tensor> copies_of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& tensor : tensors) copies.push_back(tensor.detach().clone());
  return copies;
}

std::vector<at::Tensor> pull() {
  const std::lock_guard lock(Server::one().mutex);
  return copies_of(Server::one().model->parameters());
}

/// Applies a trainer's gradients and answers with the newest parameters.
std::vector<at::Tensor> push(const std::vector<at::Tensor>& gradients) {
  Server& server = Server::one();
  const std::lock_guard lock(server.mutex);
  std::vector<at::Tensor> parameters = server.model->parameters();
  if (gradients.size() != parameters.size())
    throw std::invalid_argument("as many gradients as parameters are wanted");
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].mutable_grad() = gradients[i];
  server.optimizer.step();
  return copies_of(parameters);
}

const rpc::Function remote_pull("ps::pull", pull);
const rpc::Function<std::vector<at::Tensor>(std::vector<at::Tensor>)> remote_push("ps::push", push);

/// What follows the header of an IDX file.
at::Tensor read_idx(const std::string& path, std::int64_t header, std::vector<std::int64_t> shape) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const at::Tensor all = torch::from_blob(const_cast<char*>(bytes.data()),
                                          {static_cast<std::int64_t>(bytes.size())}, torch::kByte);
  return all.slice(0, header).reshape(shape).clone();
}

struct Digits {
  at::Tensor images, labels;
};

Digits read_digits(const std::string& folder, const std::string& part) {
  return {read_idx(folder + "/" + part + "-images-idx3-ubyte", 16, {-1, 784}).to(torch::kFloat) / 255,
          read_idx(folder + "/" + part + "-labels-idx1-ubyte", 8, {-1}).to(torch::kLong)};
}

void assign(torch::nn::Sequential& model, const std::vector<at::Tensor>& values) {
  const torch::NoGradGuard no_gradients;
  const auto parameters = model->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].copy_(values[i]);
}

void train(const Digits& digits, int rank) {
  torch::nn::Sequential model = make_model();
  assign(model, rpc::rpc_sync("server", remote_pull));
  torch::manual_seed(100 + rank);
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor chosen = torch::randint(digits.labels.size(0), {kBatch}, torch::kLong);
    model->zero_grad();
    torch::cross_entropy_loss(model->forward(digits.images.index({chosen})), digits.labels.index({chosen}))
        .backward();
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : model->parameters()) gradients.push_back(parameter.grad());
    assign(model, rpc::rpc_sync("server", remote_push, gradients));
  }
}

double accuracy(const Digits& digits) {
  const torch::NoGradGuard no_gradients;
  const at::Tensor guesses = Server::one().model->forward(digits.images).argmax(1);
  return (guesses == digits.labels).to(torch::kFloat).mean().item<double>();
}

int run(const std::string& folder) {
  torch::set_num_threads(1);
  const std::string rank = std::getenv("RANK") == nullptr ? "0" : std::getenv("RANK");
  rpc::init_rpc(rank == "0" ? "server" : "trainer" + rank);
  if (rank != "0") train(read_digits(folder, "train"), std::stoi(rank));
  rpc::shutdown();  // returns when every trainer is done
  if (rank != "0") return 0;
  const double right = accuracy(read_digits(folder, "t10k"));
  std::cout << "accuracy on digits that nobody trained on: " << right << std::endl;
  return right > 0.8 ? 0 : 1;
}

int main(int argc, char** argv) {
  return ddprun::record([&] { return run(argc > 1 ? argv[1] : "."); });
}
