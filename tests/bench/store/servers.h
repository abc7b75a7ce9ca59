#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace ddprun::bench {

enum class ServerKind { kOurs, kTorch };

/// What all threads of a process have used.
struct CpuTime {
  std::chrono::nanoseconds total{0};
  std::chrono::nanoseconds own_code{0};  ///< outside the kernel; counted in clock ticks of 10 ms
};

/// A store in a process of its own; killed with the object.
class ServerProcess {
 public:
  /// Forks: the calling process must have one thread.
  explicit ServerProcess(ServerKind kind);
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] CpuTime cpu_time() const;
  /// Memory that belongs to this process alone, in bytes.
  [[nodiscard]] std::size_t private_bytes() const;

 private:
  pid_t pid_ = -1;
  std::uint16_t port_ = 0;
};

}  // namespace ddprun::bench
