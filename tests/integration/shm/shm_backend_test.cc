// The shared-memory backend as c10d sees it, against gloo where gloo has the same. Each rank is a process.
#include "tests/integration/shm/processes.h"
#include "tests/support/catch.h"
#include "worker/runtime/comm/backend/bucket_memory.h"
#include "worker/runtime/comm/backend/gloo.h"
#include "worker/runtime/comm/shm/make_backend.h"
#include <ddprun/exception.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <chrono>
#include <thread>

using namespace ddprun;
using c10d::ReduceOp;
using ddprun::testing::require;

namespace {

using Store = c10::intrusive_ptr<c10d::Store>;
using Backend = c10::intrusive_ptr<c10d::Backend>;

constexpr auto kTimeout = std::chrono::seconds(60);

Backend make_shm(const Store& store, int rank, int size) {
  return runtime::make_shm_backend({.store = c10::make_intrusive<c10d::PrefixStore>("shm", store),
                                    .rank = rank,
                                    .world_size = size,
                                    .timeout = kTimeout});
}

Backend make_gloo(const Store& store, int rank, int size) {
  return runtime::make_gloo_backend({.store = c10::make_intrusive<c10d::PrefixStore>("gloo", store),
                                     .rank = rank,
                                     .world_size = size,
                                     .timeout = kTimeout});
}

bool are_same_bytes(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0;
}

at::Tensor random_tensor(at::ScalarType type, std::int64_t count, int rank) {
  at::manual_seed(static_cast<std::uint64_t>(1000 + rank));
  if (type == at::kBool) return at::randint(0, 2, {count}).to(type);
  if (at::isIntegralType(type, false)) return at::randint(0, 100, {count}).to(type);
  return at::randn({count}).to(type);
}

at::Tensor all_reduce(const Backend& backend, const at::Tensor& input, ReduceOp op) {
  std::vector<at::Tensor> tensors{input.clone()};
  c10d::AllreduceOptions options;
  options.reduceOp = op;
  backend->allreduce(tensors, options)->wait();
  return tensors[0];
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("all-reduce is equal to gloo's to the last bit, for any number of ranks") {
  const int size = GENERATE(1, 2, 3, 4, 5, 6);
  CHECK(testing::in_processes(size, [&](int rank, const Store& store) {
    const Backend shm = make_shm(store, rank, size);
    const Backend gloo = make_gloo(store, rank, size);
    for (const std::int64_t count : {1, 2, 3, 7, 100, 1023, 2600, 70001, 600000}) {
      const at::Tensor input = random_tensor(at::kFloat, count, rank);
      require(are_same_bytes(all_reduce(shm, input, ReduceOp::SUM), all_reduce(gloo, input, ReduceOp::SUM)),
              "sums of " + std::to_string(count) + " floats differ");
    }
  }));
}

TEST_CASE("every dtype and operation that gloo has gives gloo's bytes") {
  CHECK(testing::in_processes(3, [](int rank, const Store& store) {
    const Backend shm = make_shm(store, rank, 3);
    const Backend gloo = make_gloo(store, rank, 3);
    for (const auto type :
         {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kChar, at::kByte, at::kInt, at::kLong}) {
      for (const auto op : {ReduceOp::SUM, ReduceOp::PRODUCT, ReduceOp::MIN, ReduceOp::MAX}) {
        const at::Tensor input = random_tensor(type, 5000, rank);
        require(are_same_bytes(all_reduce(shm, input, op), all_reduce(gloo, input, op)),
                std::string("differs for ") + c10::toString(type) + " and operation " + std::to_string(op));
      }
    }
    for (const auto op : {ReduceOp::BAND, ReduceOp::BOR, ReduceOp::BXOR}) {
      const at::Tensor input = random_tensor(at::kInt, 5000, rank);
      require(are_same_bytes(all_reduce(shm, input, op), all_reduce(gloo, input, op)),
              "differs for bitwise operation " + std::to_string(op));
    }
  }));
}

TEST_CASE("sparse sums are gloo's") {
  CHECK(testing::in_processes(3, [](int rank, const Store& store) {
    const Backend shm = make_shm(store, rank, 3);
    const Backend gloo = make_gloo(store, rank, 3);
    const at::Tensor rows = at::randint(0, 50, {1, 10 + 5 * rank});
    const at::Tensor values = random_tensor(at::kFloat, (10 + 5 * rank) * 4, rank).view({-1, 4});
    const at::Tensor input = at::sparse_coo_tensor(rows, values, {50, 4});
    const auto sum = [&](const Backend& backend) {
      std::vector<at::Tensor> tensors{input.clone()};
      backend->allreduce(tensors, c10d::AllreduceOptions())->wait();
      return tensors[0].to_dense();
    };
    require(are_same_bytes(sum(shm), sum(gloo)), "sparse sums differ");
  }));
}

TEST_CASE("collectives that move data bring what gloo brings") {
  CHECK(testing::in_processes(3, [](int rank, const Store& store) {
    const Backend shm = make_shm(store, rank, 3);
    for (const std::int64_t count : {1, 6, 3000, 200001}) {
      const at::Tensor mine = random_tensor(at::kDouble, count, rank);
      std::vector<at::Tensor> expected;
      for (int r = 0; r < 3; ++r) expected.push_back(random_tensor(at::kDouble, count, r));

      std::vector<at::Tensor> root{rank == 1 ? mine.clone() : at::zeros({count}, at::kDouble)};
      c10d::BroadcastOptions from1;
      from1.rootRank = 1;
      shm->broadcast(root, from1)->wait();
      require(at::equal(root[0], expected[1]), "broadcast");

      std::vector<std::vector<at::Tensor>> all{
          {at::empty_like(mine), at::empty_like(mine), at::empty_like(mine)}};
      std::vector<at::Tensor> in{mine};
      shm->allgather(all, in)->wait();
      for (std::size_t r = 0; r < 3; ++r) require(at::equal(all[0][r], expected[r]), "allgather");

      at::Tensor flat = at::empty({3 * count}, at::kDouble);
      at::Tensor own = mine;
      shm->_allgather_base(flat, own)->wait();
      require(at::equal(flat, at::cat(expected)), "_allgather_base");

      std::vector<std::vector<at::Tensor>> gathered;
      if (rank == 0) gathered.push_back({at::empty_like(mine), at::empty_like(mine), at::empty_like(mine)});
      shm->gather(gathered, in)->wait();
      for (std::size_t r = 0; r < 3 && rank == 0; ++r)
        require(at::equal(gathered[0][r], expected[r]), "gather");

      std::vector<at::Tensor> part{at::empty_like(mine)};
      std::vector<std::vector<at::Tensor>> parts;
      if (rank == 0) parts.push_back(expected);
      shm->scatter(part, parts)->wait();
      require(at::equal(part[0], expected[static_cast<std::size_t>(rank)]), "scatter");

      at::Tensor wide = at::cat(expected);
      at::Tensor summed = at::empty_like(mine);
      shm->_reduce_scatter_base(summed, wide)->wait();
      require(at::allclose(summed, 3 * expected[static_cast<std::size_t>(rank)]), "_reduce_scatter_base");

      at::Tensor swapped = at::empty_like(wide);
      std::vector<std::int64_t> equal;
      shm->alltoall_base(swapped, wide, equal, equal)->wait();
      const at::Tensor again = expected[static_cast<std::size_t>(rank)];
      require(at::equal(swapped, at::cat({again, again, again})), "alltoall_base");

      std::vector<at::Tensor> sum{mine.clone()};
      c10d::ReduceOptions to2;
      to2.rootRank = 2;
      shm->reduce(sum, to2)->wait();
      require(
          rank == 2 ? at::allclose(sum[0], expected[0] + expected[1] + expected[2]) : at::equal(sum[0], mine),
          "reduce");
    }
    shm->barrier()->wait();
  }));
}

TEST_CASE("types that cannot be summed can be moved") {
  CHECK(testing::in_processes(2, [](int rank, const Store& store) {
    const Backend shm = make_shm(store, rank, 2);
    std::vector<at::Tensor> tensors{at::full({300, 7}, rank + 1, at::kComplexFloat)};
    shm->broadcast(tensors)->wait();
    require(at::equal(tensors[0], at::full({300, 7}, 1, at::kComplexFloat)), "broadcast of complex numbers");
    std::vector<at::Tensor> others{at::full({5}, rank + 1, at::kUInt16)};
    shm->broadcast(others)->wait();
    require(at::equal(others[0], at::full({5}, 1, at::kUInt16)), "broadcast of unsigned numbers");
    require(message_of([&] { all_reduce(shm, others[0], ReduceOp::SUM); }) ==
                "shm all-reduce: sum is not defined for other",
            "no sum of unsigned numbers");
  }));
}

TEST_CASE("messages are sent, received and received from anybody") {
  CHECK(testing::in_processes(3, [](int rank, const Store& store) {
    const Backend shm = make_shm(store, rank, 3);
    std::vector<at::Tensor> out{at::full({40000}, rank, at::kLong)};
    std::vector<at::Tensor> in{at::empty({40000}, at::kLong)};
    const auto sent = shm->send(out, (rank + 1) % 3, 5);
    const auto received = shm->recv(in, (rank + 2) % 3, 5);
    received->wait();
    sent->wait();
    require(at::equal(in[0], at::full({40000}, (rank + 2) % 3, at::kLong)), "ring");
    if (rank == 0) {
      for (int i = 0; i < 2; ++i) {
        const auto any = shm->recvAnysource(in, 6);
        any->wait();
        require(in[0][0].item<std::int64_t>() == any->sourceRank(), "source rank");
      }
    } else {
      shm->send(out, 0, 6)->wait();
    }
    shm->barrier()->wait();
  }));
}

TEST_CASE("works end in order and their futures hold the tensors") {
  CHECK(testing::in_processes(2, [](int rank, const Store& store) {
    const Backend shm = make_shm(store, rank, 2);
    if (rank == 1) ::usleep(20000);
    std::vector<at::Tensor> a{at::ones({10})}, b{at::ones({100000})};
    const auto first = shm->allreduce(a);
    const auto second = shm->allreduce(b);
    const auto future = second->getFuture();
    future->wait();
    require(first->isCompleted(), "order");
    require(at::equal(future->value().toTensorVector()[0], at::full({100000}, 2.0F)), "the future's value");
    std::vector<at::Tensor> many{at::ones({3}), at::ones({5000}), at::ones({7})};
    const auto coalesced = shm->allreduce_coalesced(many);
    coalesced->wait();
    require(coalesced->result().size() == 3 && many[1][4999].item<float>() == 2, "coalesced");
  }));
}

TEST_CASE("tensors that the backend cannot work on are refused with a sentence") {
  CHECK(testing::in_processes(1, [](int rank, const Store& store) {
    const Backend shm = make_shm(store, rank, 1);
    std::vector<at::Tensor> transposed{at::zeros({3, 4}).t()};
    require(message_of([&] { shm->allreduce(transposed); }) ==
                "shm all-reduce: the tensor Float[4, 3] with strides [1, 4] is not contiguous; pass "
                "tensor.contiguous()",
            "not contiguous");
    std::vector<at::Tensor> two{at::zeros({1}), at::zeros({1})};
    require(message_of([&] { shm->broadcast(two); }) == "shm broadcast: got 2 tensors; pass one per call",
            "two tensors");
    std::vector<at::Tensor> floats{at::zeros({1})};
    require(message_of([&] { all_reduce(shm, floats[0], ReduceOp::BAND); }) ==
                "shm all-reduce: bitwise and is not defined for float32",
            "bitwise on floats");
    std::vector<std::vector<at::Tensor>> short_list{{}};
    require(message_of([&] { shm->allgather(short_list, floats); }) ==
                "shm all-gather: got 0 tensors for 1 ranks; pass one per rank",
            "a list of another length");
  }));
}

TEST_CASE("complex numbers are summed as their parts are") {
  CHECK(testing::in_processes(3, [](int rank, const Store& store) {
    const Backend shm = make_shm(store, rank, 3);
    const Backend gloo = make_gloo(store, rank, 3);
    for (const auto type : {at::kComplexFloat, at::kComplexDouble}) {
      const at::Tensor input = random_tensor(type, 5000, rank);
      const at::Tensor parts = all_reduce(gloo, at::view_as_real(input), ReduceOp::SUM);
      const at::Tensor sum = all_reduce(shm, input, ReduceOp::SUM);
      require(sum.scalar_type() == type && are_same_bytes(at::view_as_real(sum).contiguous(), parts),
              "complex sums differ");
    }
    require(message_of([&] {
              all_reduce(shm, random_tensor(at::kComplexFloat, 2, rank), ReduceOp::PRODUCT);
            }) == "shm all-reduce: product is not defined for ComplexFloat",
            "a product of complex numbers");
  }));
}

TEST_CASE("ranks outside the group are refused, below it as well") {
  CHECK(testing::in_processes(2, [](int rank, const Store& store) {
    const Backend shm = make_shm(store, rank, 2);
    const auto refused = [&](const std::string& expected, const std::function<void()>& action) {
      const std::string message = message_of(action);
      require(message == expected, "\"" + message + "\"");
    };
    std::vector<at::Tensor> one{at::zeros({2})};
    std::vector<std::vector<at::Tensor>> none;
    refused("shm send: rank -1 and tag 0 are not of a group of 2 ranks and tags from 0",
            [&] { shm->send(one, -1, 0); });
    refused("shm receive: rank -1 and tag 0 are not of a group of 2 ranks and tags from 0",
            [&] { shm->recv(one, -1, 0); });
    for (const int root : {-1, 2}) {
      const std::string tail = ": rank " + std::to_string(root) + " is outside a group of 2 ranks";
      refused("shm broadcast" + tail, [&] {
        c10d::BroadcastOptions options;
        options.rootRank = root;
        shm->broadcast(one, options);
      });
      refused("shm reduce" + tail, [&] {
        c10d::ReduceOptions options;
        options.rootRank = root;
        shm->reduce(one, options);
      });
      refused("shm gather" + tail, [&] {
        c10d::GatherOptions options;
        options.rootRank = root;
        shm->gather(none, one, options);
      });
      refused("shm scatter" + tail, [&] {
        c10d::ScatterOptions options;
        options.rootRank = root;
        shm->scatter(one, none, options);
      });
    }
  }));
}

TEST_CASE("other threads compute as ever while a bucket is being placed in the segment") {
  CHECK(testing::in_processes(1, [](int rank, const Store& store) {
    auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, 1);
    group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM,
                      make_shm(store, rank, 1));
    const runtime::BucketAllocationScope scope(*group, at::kCPU);
    // What oneDNN's kernels do for their scratch memory.
    const auto take_and_give_back = [] {
      c10::Allocator* const allocator = c10::GetAllocator(c10::kCPU);
      void* const memory = allocator->raw_allocate(4096);
      std::memset(memory, 1, 4096);
      allocator->raw_deallocate(memory);
    };
    std::string error;
    std::thread([&] {
      try {
        take_and_give_back();
      } catch (const std::exception& thrown) {
        error = thrown.what();
      }
    }).join();
    require(error.empty(), error);
    take_and_give_back();
  }));
}

TEST_CASE("tensors of the segment outlive the backend, and are summed in place") {
  CHECK(testing::in_processes(2, [](int rank, const Store& store) {
    at::Tensor bucket;
    {
      const Backend shm = make_shm(store, rank, 2);
      bucket = shm->allocateTensor(100000, at::kFloat).fill_(rank + 1);
      std::vector<at::Tensor> tensors{bucket};
      shm->allreduce(tensors)->wait();
      shm->barrier()->wait();
    }
    require(at::equal(bucket, at::full({100000}, 3.0F)), "the sum");
  }));
}

TEST_CASE("an error of the group reaches wait() and the future as an Exception with its code") {
  CHECK(testing::in_processes(2, [](int rank, const Store& store) {
    const Backend shm = make_shm(store, rank, 2);
    std::vector<at::Tensor> tensors{at::zeros({rank + 5})};
    const auto work = shm->allreduce(tensors);
    const auto future = work->getFuture();
    const std::string expected =
        "operation 1 differs between ranks: rank 0 called all-reduce (sum) of float32[5], rank 1 called "
        "all-reduce (sum) of "
        "float32[6]; all ranks must call the same collectives in the same order";
    require(message_of([&] { work->wait(); }) == expected, "wait");
    require(message_of([&] { future->waitAndThrow(); }) == expected, "future");
    require(message_of([&] { shm->barrier()->wait(); }).find("the group has ended: ") != std::string::npos,
            "later");
  }));
}

TEST_CASE("all ranks hear the same when one cannot have the segment") {
  CHECK(testing::in_processes(3, [](int rank, const Store& store) {
    // Rank 2 plays a process without /proc: it says so in rank 2's words.
    const Store shm = c10::make_intrusive<c10d::PrefixStore>("shm", store);
    const std::string expected = "shared memory between the 3 ranks cannot be had: rank 2: no /proc here";
    if (rank == 2) {
      const std::string text = "no no /proc here";
      shm->set("opened/2", std::vector<std::uint8_t>(text.begin(), text.end()));
      return;
    }
    require(message_of([&] { make_shm(store, rank, 3); }) == expected, "the same words");
  }));
}

TEST_CASE("a rank that is not told where the memory is says for how long it waited") {
  const runtime::ShmOptions options{.store = c10::make_intrusive<c10d::HashStore>(),
                                    .rank = 1,
                                    .world_size = 2,
                                    .timeout = std::chrono::milliseconds(100)};
  CHECK(
      message_of([&] { runtime::make_shm_backend(options); }) ==
      "shm: rank 1 waited for 0.1 s for rank 0 to say where the shared memory is; look for its last output");
}

TEST_CASE("a rank that could not open the memory throws, whatever an earlier group has left in the store") {
  const runtime::ShmOptions options{
      .store = c10::make_intrusive<c10d::HashStore>(), .rank = 1, .world_size = 2, .timeout = kTimeout};
  for (const auto& [key, text] : {std::pair<std::string, std::string>("address", "no it is gone"),
                                  std::pair<std::string, std::string>("opened/answer", "ok ")}) {
    options.store->set(key, std::vector<std::uint8_t>(text.begin(), text.end()));
  }
  CHECK(message_of([&] { runtime::make_shm_backend(options); }) ==
        "shm: the store says that all 2 ranks have the shared memory, and rank 1 has not: it is gone; are "
        "these keys of another program?");
}
