#pragma once

#include "tests/bench/store/histogram.h"
#include "tests/bench/store/servers.h"

#include <chrono>
#include <cstdint>
#include <functional>

namespace ddprun::bench {

struct Load {
  std::uint16_t port = 0;
  int clients = 1;
  std::chrono::nanoseconds duration = std::chrono::seconds(1);
};

struct Throughput {
  double gets_per_second = 0;
  std::chrono::nanoseconds p99{0};
  CpuTime server_cpu;
  std::int64_t gets = 0;
};

/// Stock c10d::TCPStore clients, one process each up to 64 and then as many threads in each of 64 processes,
/// get one 64-byte value as fast as they can. `server_cpu` tells how much CPU time the server has used so
/// far.
Throughput measure_gets(const Load& load, const std::function<CpuTime()>& server_cpu);

struct BarrierResult {
  std::chrono::nanoseconds duration{0};  ///< from the common start to the last client's leaving
  std::size_t server_bytes = 0;          ///< what `server_bytes` told while all were connected
};

/// The same clients, all connected, pass one barrier: add, the last sets a key, all wait for it.
BarrierResult measure_barrier(const Load& load, const std::function<std::size_t()>& server_bytes);

}  // namespace ddprun::bench
