#include "tests/integration/runtime/in_threads.h"
#include "tests/support/catch.h"
#include <ddprun/collectives.h>
#include <ddprun/comm_hooks.h>
#include <ddprun/model_averager.h>

#include <torch/nn/modules/linear.h>

namespace ddprun {
namespace {

using testing::message_of;
using testing::run_ranks;
using testing::run_ranks_to_success;

torch::Tensor number(double value) { return torch::full({2}, value); }

double value(const torch::Tensor& tensor) {
  CHECK(tensor.eq(tensor.reshape({-1})[0]).all().item<bool>());
  return tensor.reshape({-1})[0].item<double>();
}

TEST_CASE("reductions reduce") {
  run_ranks_to_success(3, [](const Group& group) {
    const double mine = group.rank() + 1;
    const auto reduced = [&](ReduceOp op) {
      const auto tensor = number(mine);
      all_reduce(group, tensor, op);
      return value(tensor);
    };
    CHECK_IN_RANK(reduced(ReduceOp::kSum) == 6);
    CHECK_IN_RANK(reduced(ReduceOp::kAverage) == 2);
    CHECK_IN_RANK(reduced(ReduceOp::kProduct) == 6);
    CHECK_IN_RANK(reduced(ReduceOp::kMin) == 1);
    CHECK_IN_RANK(reduced(ReduceOp::kMax) == 3);
    const auto tensor = number(mine);
    reduce(group, tensor, 1);
    if (group.rank() == 1) CHECK_IN_RANK(value(tensor) == 6);
  });
}

TEST_CASE("gathers, scatters and broadcasts move what they say") {
  run_ranks_to_success(3, [](const Group& group) {
    const auto all = all_gather(group, number(group.rank()));
    for (int rank = 0; rank < 3; ++rank) CHECK_IN_RANK(value(all[static_cast<std::size_t>(rank)]) == rank);
    const auto gathered = gather(group, number(group.rank()), 2);
    CHECK_IN_RANK(gathered.size() == (group.rank() == 2 ? 3U : 0U));
    auto into = number(-1);
    scatter(group, into, {number(10), number(11), number(12)}, 0);
    CHECK_IN_RANK(value(into) == 10 + group.rank());
    auto tensor = number(group.rank());
    broadcast(group, tensor, 1);
    CHECK_IN_RANK(value(tensor) == 1);
  });
}

TEST_CASE("all_gather_ragged gathers tensors of different shapes") {
  run_ranks_to_success(3, [](const Group& group) {
    const auto mine = torch::full({group.rank(), 2}, group.rank(), torch::kInt64);
    const auto all = all_gather_ragged(group, mine);
    for (int rank = 0; rank < 3; ++rank) {
      const auto& tensor = all[static_cast<std::size_t>(rank)];
      CHECK_IN_RANK(tensor.sizes() == at::IntArrayRef({rank, 2}));
      CHECK_IN_RANK(tensor.eq(rank).all().item<bool>());
    }
  });
}

TEST_CASE("reduce_scatter and all_to_all exchange pieces") {
  run_ranks_to_success(3, [](const Group& group) {
    const double mine = group.rank();
    auto into = number(0);
    reduce_scatter(group, into, {number(mine), number(mine + 10), number(mine + 20)});
    CHECK_IN_RANK(value(into) == 3 + 30 * group.rank());
    std::vector<torch::Tensor> received = {number(-1), number(-1), number(-1)};
    all_to_all(group, received, {number(10 * mine), number(10 * mine + 1), number(10 * mine + 2)});
    for (int rank = 0; rank < 3; ++rank) {
      CHECK_IN_RANK(value(received[static_cast<std::size_t>(rank)]) == 10 * rank + group.rank());
    }
  });
}

TEST_CASE("all_to_all exchanges pieces of differing sizes, also empty ones") {
  run_ranks_to_success(3, [](const Group& group) {
    // Rank a sends rank b a row of a + b numbers.
    const auto row = [](int from, int to, double value) { return torch::full({from + to}, value); };
    std::vector<torch::Tensor> into, pieces;
    for (int other = 0; other < 3; ++other) {
      pieces.push_back(row(group.rank(), other, 10 * group.rank() + other));
      into.push_back(row(other, group.rank(), -1));
    }
    all_to_all(group, into, pieces);
    for (int from = 0; from < 3; ++from) {
      CHECK_IN_RANK(
          into[static_cast<std::size_t>(from)].equal(row(from, group.rank(), 10 * from + group.rank())));
    }
  });
}

TEST_CASE("all_to_all refuses pieces that do not fit before anything is sent") {
  const auto refusal = [](const torch::Tensor& into_own, const torch::Tensor& own) {
    const auto failures = run_ranks(2, [&](const Group& group) {
      std::vector<torch::Tensor> into(2), pieces(2);
      const auto self = static_cast<std::size_t>(group.rank());
      into[self] = into_own.clone();
      pieces[self] = own.clone();
      into[1 - self] = number(-1);
      pieces[1 - self] = number(1);
      all_to_all(group, into, pieces);
    });
    CHECK(message_of(failures[0]).substr(0, 10) == message_of(failures[1]).substr(0, 10));
    return message_of(failures[1]);
  };
  CHECK(refusal(number(-1), torch::ones({1})) ==
        "all_to_all: rank 1 keeps a piece of 1 elements for itself, and its place has 2; give both as many");
  CHECK(refusal(number(-1).to(torch::kDouble), number(1)) ==
        "all_to_all: piece 0 is Float, and the place for rank 1's is Double; give all tensors one dtype");
  CHECK(refusal(torch::full({2, 1}, -1.0), number(1)) == "no exception");
}

TEST_CASE("all_to_all leaves autograd out, on this rank as on the others") {
  run_ranks_to_success(2, [](const Group& group) {
    std::vector<torch::Tensor> into = {number(-1), number(-1)};
    all_to_all(group, into, {number(1).requires_grad_(), number(2).requires_grad_()});
    for (const torch::Tensor& received : into) {
      CHECK_IN_RANK(!received.requires_grad());
      CHECK_IN_RANK(value(received) == group.rank() + 1);
    }
  });
}

// nccl has an all-to-all of lists, and deadlocks on messages that are not of one group call.
class ListsOnly final : public c10d::Backend {
 public:
  using Backend::Backend;
  const std::string getBackendName() const override { return "lists-only"; }
  c10::intrusive_ptr<c10d::Work> alltoall(std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
                                          const c10d::AllToAllOptions&) override {
    for (std::size_t rank = 0; rank < outputs.size(); ++rank) outputs[rank].copy_(inputs[rank]);
    return c10::make_intrusive<Done>();
  }

 private:
  struct Done : c10d::Work {
    bool isCompleted() override { return true; }
    bool wait(std::chrono::milliseconds) override { return true; }
  };
};

TEST_CASE("all_to_all takes the backend's own form where there is one") {
  const auto group = c10::make_intrusive<c10d::ProcessGroup>(c10::make_intrusive<c10d::HashStore>(), 0, 2);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM,
                    c10::make_intrusive<ListsOnly>(0, 2));
  std::vector<torch::Tensor> into = {number(0), number(0)};
  all_to_all(Group(group), into, {number(3), number(4)});
  CHECK(value(into[1]) == 4);
}

TEST_CASE("all_to_all with empty entries gathers differing sizes") {
  run_ranks_to_success(3, [](const Group& group) {
    std::vector<torch::Tensor> into(3), pieces(3, torch::empty({0}));
    pieces[1] = torch::full({group.rank() + 1}, group.rank(), torch::kFloat);
    for (int from = 0; from < 3; ++from) {
      into[static_cast<std::size_t>(from)] = torch::empty({group.rank() == 1 ? from + 1 : 0});
    }
    all_to_all(group, into, pieces);
    for (int from = 0; group.rank() == 1 && from < 3; ++from) {
      CHECK_IN_RANK(into[static_cast<std::size_t>(from)].equal(torch::full({from + 1}, from, torch::kFloat)));
    }
  });
}

TEST_CASE("every collective has an asynchronous form") {
  run_ranks_to_success(3, [](const Group& group) {
    const double mine = group.rank();
    const auto three = [](double base) {
      return std::vector<torch::Tensor>{number(base), number(base + 1), number(base + 2)};
    };
    const auto finish = [](Pending pending) {
      pending.wait();
      CHECK_IN_RANK(pending.is_done());
    };
    auto tensor = number(mine);
    finish(async_all_reduce(group, tensor, ReduceOp::kMax));
    CHECK_IN_RANK(value(tensor) == 2);
    tensor = number(mine);
    finish(async_reduce(group, tensor, 0));
    if (group.rank() == 0) CHECK_IN_RANK(value(tensor) == 3);
    tensor = number(mine);
    finish(async_broadcast(group, tensor, 2));
    CHECK_IN_RANK(value(tensor) == 2);
    std::vector<torch::Tensor> all = three(-1);
    finish(async_all_gather(group, number(mine), all));
    CHECK_IN_RANK(value(all[1]) == 1);
    all = group.rank() == 1 ? three(-1) : std::vector<torch::Tensor>{};
    finish(async_gather(group, number(mine), all, 1));
    if (group.rank() == 1) CHECK_IN_RANK(value(all[2]) == 2);
    finish(async_scatter(group, tensor, group.rank() == 0 ? three(5) : std::vector<torch::Tensor>{}, 0));
    CHECK_IN_RANK(value(tensor) == 5 + mine);
    finish(async_reduce_scatter(group, tensor, three(mine), ReduceOp::kAverage));
    CHECK_IN_RANK(value(tensor) == 1 + mine);
    all = three(-1);
    finish(async_all_to_all(group, all, three(10 * mine)));
    CHECK_IN_RANK(value(all[2]) == 20 + mine);
    finish(async_barrier(group));
  });
}

TEST_CASE("messages and asynchronous forms arrive") {
  run_ranks_to_success(2, [](const Group& group) {
    auto tensor = number(group.rank());
    if (group.rank() == 0) {
      send(group, tensor, 1, 7);
    } else {
      receive(group, tensor, 0, 7);
      CHECK_IN_RANK(value(tensor) == 0);
    }
    const auto sum = number(1);
    Pending pending = async_all_reduce(group, sum, ReduceOp::kAverage);
    pending.wait();
    pending.wait();
    CHECK_IN_RANK(value(sum) == 1);
    barrier(group);
  });
}

TEST_CASE("an all_to_all leaves the messages of its user alone") {
  run_ranks_to_success(2, [](const Group& group) {
    const auto message = number(-1);
    std::vector<torch::Tensor> into = {number(-1), number(-1)};
    const std::vector<torch::Tensor> pieces = {number(10 * group.rank()), number(10 * group.rank() + 1)};
    if (group.rank() == 0) {
      Pending pending = async_receive(group, message, 1);
      all_to_all(group, into, pieces);
      pending.wait();
      CHECK_IN_RANK(value(message) == 77);
    } else {
      all_to_all(group, into, pieces);
      send(group, number(77), 0);
    }
    CHECK_IN_RANK(value(into[0]) == group.rank());
    CHECK_IN_RANK(value(into[1]) == 10 + group.rank());
  });
}

TEST_CASE("all_to_all_single deals out rows by splits") {
  run_ranks_to_success(2, [](const Group& group) {
    // Rank 0 keeps one row and sends two; rank 1 sends three and keeps none.
    const at::Tensor input = torch::arange(3).add(10 * group.rank()).view({3, 1});
    const at::Tensor output = torch::empty({group.rank() == 0 ? 4 : 2, 1}, torch::kInt64);
    const RowSplits splits = group.rank() == 0 ? RowSplits{.output = {1, 3}, .input = {1, 2}}
                                               : RowSplits{.output = {2, 0}, .input = {3, 0}};
    all_to_all_single(group, output, input, splits);
    const auto expected = group.rank() == 0 ? torch::tensor({0, 10, 11, 12}) : torch::tensor({1, 2});
    CHECK_IN_RANK(output.view({-1}).equal(expected));
    const at::Tensor halves = torch::empty({4}, torch::kInt64);
    all_to_all_single(group, halves, torch::arange(4).add(10 * group.rank()));
    const std::int64_t first = 2 * group.rank();
    CHECK_IN_RANK(halves.equal(torch::tensor({first, first + 1, first + 10, first + 11})));
  });
}

TEST_CASE("splits that do not fit are refused before anything is sent") {
  const auto refusal = [](std::vector<std::int64_t> splits) {
    return message_of(run_ranks(1, [&](const Group& group) {
      all_to_all_single(group, torch::empty({3}), torch::empty({3}), {.output = splits});
    })[0]);
  };
  CHECK(refusal({2}) == "all_to_all_single: output has 3 rows, and its splits have 2");
  CHECK(refusal({1, 2}) ==
        "all_to_all_single: output has 2 splits, the group has 1 ranks; give one per rank");
  CHECK(refusal({-1}) == "all_to_all_single: output has a split of -1 rows; they are at least 0");
}

TEST_CASE("a message from anybody comes with its sender") {
  run_ranks_to_success(3, [](const Group& group) {
    if (group.rank() != 1) return send(group, number(group.rank()), 1, 5);
    double sum = 0;
    for (int message = 0; message < 2; ++message) {
      const auto into = number(-1);
      const int sender = receive_from_any(group, into, 5);
      CHECK_IN_RANK(value(into) == sender);
      sum += sender;
    }
    CHECK_IN_RANK(sum == 2);
  });
}

TEST_CASE("a wait may have a time-out of its own, and be repeated") {
  run_ranks_to_success(2, [](const Group& group) {
    const auto tensor = number(group.rank());
    if (group.rank() == 0) {
      Pending pending = async_all_reduce(group, tensor);
      try {
        pending.wait(std::chrono::milliseconds(1));
        CHECK_IN_RANK(false);
      } catch (const Exception& error) {
        CHECK_IN_RANK(error.code() == ErrorCode::kTimeout);
      }
      send(group, number(0), 1, 3);  // only now does the other one take part
      pending.wait(std::chrono::minutes(1));
    } else {
      receive(group, number(-1), 0, 3);
      all_reduce(group, tensor);
    }
    CHECK_IN_RANK(value(tensor) == 1);
  });
}

TEST_CASE("a pending collective has a future with its tensors") {
  run_ranks_to_success(2, [](const Group& group) {
    Pending pending = async_all_reduce(group, number(group.rank()));
    const auto future = pending.future();
    future->waitAndThrow();
    CHECK_IN_RANK(value(future->value().toTensorVector().at(0)) == 1);
    pending.wait();
  });
}

TEST_CASE("a tag that no message may have is refused") {
  const auto failures = run_ranks(1, [](const Group& group) { send(group, number(0), 0, 2147483647); });
  CHECK(message_of(failures[0]) == "send: the tag is 2147483647; it has to be from 0 to 2147483646");
}

TEST_CASE("bytes of any kind are broadcast and gathered") {
  run_ranks_to_success(2, [](const Group& group) {
    const std::string bytes("a\0b", 3);
    CHECK_IN_RANK(broadcast_bytes(group, group.rank() == 0 ? bytes : "", 0) == bytes);
    CHECK_IN_RANK(broadcast_bytes(group, "", 0).empty());
    CHECK_IN_RANK(all_gather_bytes(group, std::string(static_cast<std::size_t>(group.rank()), 'x')) ==
                  std::vector<std::string>{"", "x"});
  });
}

TEST_CASE("average_parameters takes means, of several dtypes at once") {
  run_ranks_to_success(2, [](const Group& group) {
    const auto rank = static_cast<double>(group.rank());
    const auto a = torch::full({2, 3}, rank, torch::requires_grad());
    const auto b = torch::full({4}, 10 * rank, at::TensorOptions(torch::kDouble).requires_grad(true));
    average_parameters(group, {a, b});
    CHECK_IN_RANK(value(a.detach()) == 0.5);
    CHECK_IN_RANK(value(b.detach()) == 5);
  });
}

TEST_CASE("wrong ranks and counts are refused before anything is sent") {
  const auto failures = run_ranks(1, [](const Group& group) { broadcast(group, number(0), 1); });
  CHECK(message_of(failures[0]) == "broadcast: rank 1 is outside a group of 1");
  const auto counts = run_ranks(1, [](const Group& group) { all_to_all(group, {}, {}); });
  CHECK(message_of(counts[0]) == "all_to_all: 0 tensors given, the group has 1 ranks; give one per rank");
}

TEST_CASE("post-local SGD stops reducing and the averager brings replicas together") {
  run_ranks_to_success(2, [](const Group& group) {
    torch::nn::Linear model(1, 1);
    DistributedDataParallel ddp(model, group.process_group());
    ddp.register_comm_hook(
        post_local_sgd_hook({group, group, {.start_step = 1, .reduce_over_subgroup = false}}));
    PeriodicModelAverager averager(group, {.period = 2, .warmup_steps = 1});
    const auto gradient = [&] {
      model->zero_grad();
      (static_cast<double>(group.rank()) * ddp(torch::ones({1, 1}))).sum().backward();
      return model->bias.grad().item<float>();
    };
    CHECK_IN_RANK(gradient() == 0.5F);
    CHECK_IN_RANK(gradient() == static_cast<float>(group.rank()));
    torch::NoGradGuard no_grad;
    averager.average_parameters(model->parameters());
    model->bias.fill_(group.rank());
    averager.average_parameters(model->parameters());
    CHECK_IN_RANK(model->bias.item<float>() == 0.5F);
  });
}

}  // namespace
}  // namespace ddprun
