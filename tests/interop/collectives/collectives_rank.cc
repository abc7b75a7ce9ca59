// One rank: `interop_collectives FOLDER DEVICE` makes the calls of Rank in collectives_test.py, line by line, and
// writes what it gets there.
#include <ddprun/collectives.h>
#include <ddprun/group.h>
#include <ddprun/init.h>

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::interop {
namespace {

using torch::Tensor;
using Named = std::pair<std::string, at::ScalarType>;
using Op = std::pair<std::string, ReduceOp>;

const std::vector<Named> kFloats = {{"float", torch::kFloat},
                                    {"double", torch::kDouble},
                                    {"half", torch::kHalf},
                                    {"bfloat16", torch::kBFloat16}};
const std::vector<Named> kIntegers = {{"int8", torch::kInt8},
                                      {"uint8", torch::kUInt8},
                                      {"int32", torch::kInt32},
                                      {"int64", torch::kInt64},
                                      {"bool", torch::kBool}};
const std::vector<Op> kNumbers = {{"sum", ReduceOp::kSum},
                                  {"product", ReduceOp::kProduct},
                                  {"min", ReduceOp::kMin},
                                  {"max", ReduceOp::kMax}};
const std::vector<Op> kBits = {
    {"and", ReduceOp::kBitwiseAnd}, {"or", ReduceOp::kBitwiseOr}, {"xor", ReduceOp::kBitwiseXor}};

std::vector<Named> all_types() {
  std::vector<Named> all = kFloats;
  all.insert(all.end(), kIntegers.begin(), kIntegers.end());
  return all;
}

std::string to_bytes(const Tensor& tensor) {
  // gloo's sum of True is the byte 2: see collectives_test.py.
  const Tensor dense =
      tensor.scalar_type() == torch::kBool ? tensor.view(torch::kUInt8).ne(0) : tensor.contiguous();
  const Tensor local = dense.cpu();
  return {static_cast<const char*>(local.const_data_ptr()), local.nbytes()};
}

std::string to_bytes(const std::vector<std::int64_t>& numbers) {
  return to_bytes(torch::tensor(numbers, torch::kInt64));
}

template <class T>
std::string joined(const std::vector<T>& all) {
  std::string bytes;
  for (const T& one : all) {
    if constexpr (std::is_same_v<T, std::string>) {
      bytes += one;
    } else {
      bytes += to_bytes(one);
    }
  }
  return bytes;
}

class Rank {
 public:
  Rank(const Context& context, const std::string& folder)
      : world_(context),
        device_(context.device()),
        is_nccl_(context.backend().ends_with("nccl")),
        serves_host_(device_.is_cpu() || context.backend().find(',') != std::string::npos),
        is_gloo_on_a_card_(context.backend() == "gloo" && device_.is_cuda()),
        rank_(world_.rank()),
        size_(world_.size()),
        file_(folder + "/cpp_" + std::to_string(rank_) + ".bin", std::ios::binary) {
    file_.exceptions(std::ios::failbit | std::ios::badbit);
  }

  void run() {
    const at::Device current = c10::impl::VirtualGuardImpl(device_.type()).getDevice();
    if (!device_.is_cpu() && current != device_) {
      throw std::runtime_error("after init the current device is " + current.str() + ", this rank's " +
                               device_.str());
    }
    reductions();
    picks();
    premultiplied();
    complex_numbers();
    gathers();
    if (serves_host_) both_devices();
    if (size_ > 1) {
      if (!is_gloo_on_a_card_) {
        messages();
        rows();
        if (!is_nccl_) from_anybody();
      }
      groups();
      objects();
    }
    monitored_barrier(world_);
    file_.close();
  }

 private:
  Tensor made(std::int64_t count, at::ScalarType dtype) {
    torch::manual_seed(static_cast<std::uint64_t>(1000 * ++seed_ + rank_));
    return (at::isFloatingType(dtype) ? torch::randn({count}) : torch::randint(0, 100, {count}))
        .to(dtype)
        .to(device_);
  }

  Tensor special(std::int64_t count, at::ScalarType dtype) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const Tensor table = torch::tensor({kNan, 0.0F, 1.0F, kInfinity}).to(dtype);
    torch::manual_seed(static_cast<std::uint64_t>(1000 * ++seed_ + rank_));
    return torch::cat({table, -table})
        .index_select(0, torch::randint(0, 8, {count}, torch::kLong))
        .to(device_);
  }

  [[nodiscard]] Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype = torch::kFloat) const {
    return torch::empty(sizes, at::TensorOptions(dtype).device(device_));
  }

  void keep(const std::string& name, const std::string& data) {
    for (const std::uint64_t size : {name.size(), data.size()})
      file_.write(reinterpret_cast<const char*>(&size), sizeof(size));
    file_ << name << data;
  }

  void reductions() {
    for (const auto& [name, dtype] : all_types()) {
      std::vector<Op> ops = kNumbers;
      if (at::isFloatingType(dtype)) {
        ops.emplace_back("average", ReduceOp::kAverage);
      } else if (!is_nccl_) {  // which has none of these
        ops.insert(ops.end(), kBits.begin(), kBits.end());
      }
      for (const auto& [word, op] : ops) {
        for (const std::int64_t count : {1, 1000}) {
          reduce_in_every_way(word + " of " + std::to_string(count) + " " + name, count, dtype, op,
                              &Rank::made);
        }
      }
    }
  }

  void picks() {
    const std::vector<Op> picking(kNumbers.begin() + 2, kNumbers.end());  // min and max
    for (const auto& [name, dtype] : kFloats) {
      for (const auto& [word, op] : picking) {
        for (const std::int64_t count : {1, 2, 100}) {
          const std::string what = word + " of " + std::to_string(count) + " special " + name;
          reduce_in_every_way(what, count, dtype, op, &Rank::special);
        }
        const Tensor tensor = special(1'000'000, dtype);
        all_reduce(world_, tensor, op);
        keep("all_reduce, " + word + " of 1,000,000 special " + name, to_bytes(tensor));
      }
    }
  }

  using Maker = Tensor (Rank::*)(std::int64_t count, at::ScalarType dtype);

  void reduce_in_every_way(const std::string& what, std::int64_t count, at::ScalarType dtype, ReduceOp op,
                           Maker maker) {
    const auto make = [&](std::int64_t n) { return (this->*maker)(n, dtype); };
    Tensor tensor = make(count);
    all_reduce(world_, tensor, op);
    keep("all_reduce, " + what, to_bytes(tensor));
    tensor = make(count);
    const int to_rank = size_ > 1 ? 1 : 0;
    reduce(world_, tensor, to_rank, op);
    if (rank_ == to_rank) keep("reduce, " + what, to_bytes(tensor));
    if (!is_gloo_on_a_card_) {
      std::vector<Tensor> tensors;
      for (const std::int64_t n : {count, std::int64_t{7}, std::int64_t{300}}) tensors.push_back(make(n));
      all_reduce_coalesced(world_, tensors, op);
      keep("all_reduce_coalesced, " + what, joined(tensors));
    }
    const Tensor output = empty({count}, dtype);
    reduce_scatter_tensor(world_, output, make(count * size_), op);
    keep("reduce_scatter_tensor, " + what, to_bytes(output));
    const Tensor of_list = empty({count}, dtype);
    reduce_scatter(world_, of_list, make(count * size_).chunk(size_), op);
    keep("reduce_scatter, " + what, to_bytes(of_list));
    const std::vector<Tensor> outputs = {empty({count}, dtype), empty({5}, dtype)};
    std::vector<Tensor> wholes = {make(count * size_)};
    wholes.push_back(make(5 * size_));
    reduce_scatter_tensor_coalesced(world_, outputs, wholes, op);
    keep("reduce_scatter_tensor_coalesced, " + what, joined(outputs));
  }

  void premultiplied() {
    for (const auto& [name, dtype] : kFloats) {
      const Tensor tensor = made(1000, dtype);
      all_reduce(world_, tensor, ReduceOp::premul_sum(0.1 + rank_));
      keep("all_reduce, premul_sum of " + name, to_bytes(tensor));
      const Tensor output = empty({100}, dtype);
      const Tensor whole = made(100 * size_, dtype);
      reduce_scatter_tensor(world_, output, whole, ReduceOp::premul_sum(0.3));
      keep("reduce_scatter_tensor, premul_sum of " + name, to_bytes(output));
    }
  }

  void complex_numbers() {
    const Tensor real = made(500, torch::kFloat);
    const Tensor tensor = torch::complex(real, made(500, torch::kFloat));
    all_reduce(world_, tensor);
    keep("all_reduce, sum of complex", to_bytes(torch::view_as_real(tensor)));
  }

  void gathers() {
    for (const auto& [name, dtype] : all_types()) {
      const Tensor output = empty({size_, 10}, dtype);  // stacked: any shape will do
      all_gather_into_tensor(world_, output, made(10, dtype));
      keep("all_gather_into_tensor of " + name, to_bytes(output));
      if (is_gloo_on_a_card_) continue;
      const std::vector<Tensor> outputs = {empty({3 * size_}, dtype), empty({50 * size_}, dtype)};
      std::vector<Tensor> inputs = {made(3, dtype)};
      inputs.push_back(made(50, dtype));
      all_gather_into_tensor_coalesced(world_, outputs, inputs);
      keep("all_gather_into_tensor_coalesced of " + name, joined(outputs));
    }
  }

  void messages() {
    const int right = (rank_ + 1) % size_;
    const int left = (rank_ + size_ - 1) % size_;
    const std::vector<Tensor> into = {empty({20}), empty({3})};
    std::vector<P2POp> ops = {P2POp::isend(made(20, torch::kFloat), right, 4),
                              P2POp::irecv(into[0], left, 4)};
    ops.push_back(P2POp::isend(made(3, torch::kFloat), left, 5));
    ops.push_back(P2POp::irecv(into[1], right, 5));
    batch_isend_irecv(world_, ops).wait();
    keep("batch_isend_irecv, a ring both ways", joined(into));
  }

  void both_devices() {
    const Tensor here = made(700, torch::kFloat);
    const Tensor on_host = made(700, torch::kFloat).cpu();
    Pending first = async_all_reduce(world_, here);
    Pending second = async_all_reduce(world_, on_host);
    first.wait();
    second.wait();
    const Tensor gathered = torch::empty({5 * size_});
    all_gather_into_tensor(world_, gathered, made(5, torch::kFloat).cpu());
    keep("all_reduce and all_gather on both devices",
         to_bytes(here) + to_bytes(on_host) + to_bytes(gathered));
  }

  void rows() {
    for (const auto& [name, dtype] : all_types()) {
      Tensor output = empty({3 * size_}, dtype);
      all_to_all_single(world_, output, made(3 * size_, dtype));
      keep("all_to_all_single of " + name, to_bytes(output));
      std::vector<std::int64_t> sent;
      std::int64_t sum = 0;
      for (int rank = 0; rank < size_; ++rank) sum += sent.emplace_back((rank_ + rank) % 3);
      output = empty({sum}, dtype);
      all_to_all_single(world_, output, made(sum, dtype), {.output = sent, .input = sent});
      keep("all_to_all_single of " + name + ", with splits", to_bytes(output));
    }
  }

  void from_anybody() {
    if (rank_ != 0) return send(world_, made(9, torch::kFloat), 0, 11);
    std::map<int, Tensor> received;
    for (int message = 1; message < size_; ++message) {
      const Tensor tensor = empty({9});
      received[receive_from_any(world_, tensor, 11)] = tensor;
    }
    std::string bytes;
    for (const auto& [rank, tensor] : received) bytes += to_bytes(tensor);
    keep("recv without a source", bytes);
  }

  void groups() {
    const Group ends = new_group(world_, {size_ - 1, 0});
    std::vector<std::vector<int>> halves(2);
    for (int rank = 0; rank < size_; ++rank) halves[static_cast<std::size_t>(rank % 2)].push_back(rank);
    const Group half = split_group(world_, halves);
    const Group everybody = new_group(world_);
    for (int round = 0; round < 3; ++round) {
      for (const auto& [name, group] :
           {std::pair<std::string, Group>{"ends", ends}, {"half", half}, {"everybody", everybody}}) {
        const Tensor tensor = made(500, torch::kFloat);
        if (!group.is_member()) continue;
        all_reduce(group, tensor);
        const std::vector<int> ranks = group.ranks();
        keep("new_group: all_reduce in " + name + ", round " + std::to_string(round),
             to_bytes(tensor) + to_bytes(std::vector<std::int64_t>{group.rank(), group.size()}) +
                 to_bytes(std::vector<std::int64_t>(ranks.begin(), ranks.end())));
      }
    }
    const Tensor a = made(2000, torch::kFloat);
    const Tensor b = made(2000, torch::kFloat);
    Pending first = async_all_reduce(half, a);
    Pending second = async_all_reduce(everybody, b);
    first.wait();
    second.wait();
    keep("new_group: two groups in flight", to_bytes(a) + to_bytes(b));
  }

  void objects() {
    using Strings = std::vector<std::string>;
    const std::string mine = std::string(static_cast<std::size_t>(rank_) * 3, 'x') + std::string("\0end", 4);
    keep("all_gather_object", joined(all_gather_bytes(world_, mine)));
    keep("gather_object", joined(gather_bytes(world_, mine, 1)));
    keep("broadcast_object_list", joined(broadcast_bytes_list(world_, {mine, "", "second"}, 1)));
    Strings pieces;
    for (int rank = 0; rank < size_; ++rank) pieces.emplace_back(static_cast<std::size_t>(rank), 's');
    keep("scatter_object_list", scatter_bytes(world_, pieces, 0));
    if (rank_ == 0) {
      send_bytes(world_, "", 1);
      send_bytes(world_, "hello", 1);
    }
    if (rank_ == 1) {
      std::string received = receive_bytes(world_, 0);
      received += receive_bytes(world_, 0);
      keep("recv_object_list", received);
    }
  }

  Group world_;
  at::Device device_;
  bool is_nccl_;
  bool serves_host_;
  bool is_gloo_on_a_card_;  // see collectives_test.py
  int rank_;
  int size_;
  int seed_ = 0;
  std::ofstream file_;
};

}  // namespace
}  // namespace ddprun::interop

int main(int, char** argv) try {
  torch::set_num_threads(1);
  ddprun::Context context = ddprun::init({.device = argv[2], .log = [](const std::string&) {}});
  ddprun::interop::Rank(context, argv[1]).run();
  context.shutdown();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "interop_collectives: %s\n", error.what());
  return 1;
}
