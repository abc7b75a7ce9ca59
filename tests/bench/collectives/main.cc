// All-reduce over gloo and over shared memory, in turns, between the same processes.
//
//   bench_collectives [ranks] [rounds]
//
// Prints one JSON object per size and round: microseconds per call, as the median over blocks of calls, for
// gloo, for shared memory with any tensor ("shm"), with a tensor in the segment as DDP's buckets are
// ("bucket"), for a plain memcpy of as many bytes on every rank at once, and, of two ranks, for the sums of a
// bucket's all-reduce without the ranks' meetings ("sums").
#include "worker/runtime/comm/backend/gloo.h"
#include "worker/runtime/comm/shm/kernels.h"
#include "worker/runtime/comm/shm/make_backend.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Backend = c10::intrusive_ptr<c10d::Backend>;
using Clock = std::chrono::steady_clock;

constexpr std::array<std::int64_t, 6> kSizes{4, 4096, 262144, 1048576, 4194304, 33554432};
constexpr auto kTimeout = std::chrono::minutes(2);

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

/// Median over blocks; as many calls that a block takes a few milliseconds. The count is the same on every
/// rank.
double measure(int calls, const std::function<void()>& meet, const std::function<void()>& call) {
  constexpr int kBlocks = 7;
  std::array<double, kBlocks> blocks{};
  call();
  for (double& block : blocks) {
    meet();
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    block = microseconds_since(begin) / calls;
  }
  std::sort(blocks.begin(), blocks.end());
  return blocks[kBlocks / 2];
}

void all_reduce(const Backend& backend, std::vector<at::Tensor>& tensors) {
  c10d::AllreduceOptions options;
  options.asyncOp = false;
  backend->allreduce(tensors, options)->wait();
}

/// Two buffers of the largest size that all ranks see, made before they are forked.
std::byte* map_shared_buffers() {
  void* const memory =
      ::mmap(nullptr, 2 * kSizes.back(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("cannot map the buffers of the sums");
  return static_cast<std::byte*>(memory);
}

/// What rank 0 or 1 computes in the all-reduce of a bucket: its half of both buffers, summed into both.
void sum_own_half(std::byte* buffers, std::int64_t bytes, int rank) {
  namespace shm = ddprun::runtime::shm;
  static const shm::Kernels* const kernels = shm::find_kernels(shm::DType::kFloat32, shm::ReduceOp::kSum);
  const std::int64_t half = bytes / 2 / 64 * 64;
  std::byte* const first = buffers + (rank == 0 ? 0 : half);
  std::byte* const second = first + kSizes.back();
  kernels->combine_two(first, second, first, second,
                       static_cast<std::size_t>(rank == 0 ? half : bytes - half) / 4);
}

void measure_size(std::int64_t bytes, const Backend& gloo, const Backend& shm, int rank, std::byte* buffers) {
  std::vector<at::Tensor> any{at::zeros({bytes / 4})};
  std::vector<at::Tensor> bucket{shm->allocateTensor(bytes / 4, at::kFloat).zero_()};
  at::Tensor copy = at::zeros({bytes / 4});
  const auto meet = [&shm] { shm->barrier(c10d::BarrierOptions{.asyncOp = false})->wait(); };
  const int slow_calls = bytes >= (1 << 24) ? 4 : bytes >= (1 << 20) ? 10 : 20;
  const int fast_calls = bytes >= (1 << 24) ? 8 : bytes >= (1 << 20) ? 40 : 2000;
  const double gloo_us = measure(slow_calls, meet, [&] { all_reduce(gloo, any); });
  const double shm_us = measure(fast_calls, meet, [&] { all_reduce(shm, any); });
  const double bucket_us = measure(fast_calls, meet, [&] { all_reduce(shm, bucket); });
  const double memcpy_us = measure(fast_calls, meet, [&] {
    std::memcpy(copy.data_ptr(), any[0].data_ptr(), static_cast<std::size_t>(bytes));
  });
  const double sums_us =
      shm->getSize() == 2 ? measure(fast_calls, meet, [&] { sum_own_half(buffers, bytes, rank); }) : 0;
  if (rank != 0) return;
  std::printf(R"({"bytes": %lld, "gloo": %.3f, "shm": %.3f, "bucket": %.3f, "memcpy": %.3f, "sums": %.3f})"
              "\n",
              static_cast<long long>(bytes), gloo_us, shm_us, bucket_us, memcpy_us, sums_us);
  std::fflush(stdout);
}

void run_rank(int rank, int ranks, int rounds, const std::string& store_path, std::byte* buffers) {
  at::set_num_threads(1);
  const auto store = c10::make_intrusive<c10d::FileStore>(store_path, ranks);
  const Backend gloo =
      ddprun::runtime::make_gloo_backend({.store = c10::make_intrusive<c10d::PrefixStore>("gloo", store),
                                          .rank = rank,
                                          .world_size = ranks,
                                          .timeout = kTimeout});
  const Backend shm =
      ddprun::runtime::make_shm_backend({.store = c10::make_intrusive<c10d::PrefixStore>("shm", store),
                                         .rank = rank,
                                         .world_size = ranks,
                                         .timeout = kTimeout});
  for (int round = 0; round < rounds; ++round) {
    for (const std::int64_t bytes : kSizes) measure_size(bytes, gloo, shm, rank, buffers);
  }
}

int run_all(int ranks, int rounds) {
  std::string folder = (std::filesystem::temp_directory_path() / "bench_collectives-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("cannot make a folder at " + folder);
  std::byte* const buffers = map_shared_buffers();
  std::vector<pid_t> others;
  for (int rank = 1; rank < ranks; ++rank) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      run_rank(rank, ranks, rounds, folder + "/store", buffers);
      std::_Exit(0);
    }
    others.push_back(pid);
  }
  run_rank(0, ranks, rounds, folder + "/store", buffers);
  bool good = true;
  for (const pid_t pid : others) {
    int status = 0;
    good = ::waitpid(pid, &status, 0) == pid && status == 0 && good;
  }
  std::filesystem::remove_all(folder);
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_all(argc > 1 ? std::stoi(argv[1]) : 2, argc > 2 ? std::stoi(argv[2]) : 1);
  } catch (const std::exception& error) {
    std::cerr << "bench_collectives: " << error.what() << '\n';
    return 1;
  }
}
