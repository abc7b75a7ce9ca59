#pragma once

#include "rendezvous/membership/member.h"
#include "rendezvous/membership/timing.h"

#include <boost/asio/io_context.hpp>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::bench {

/// Runs `serve` in a process of its own, which dies with this one and is killed with the object.
class ChildProcess {
 public:
  template <class Function>
  explicit ChildProcess(Function serve) : pid_(begin()) {
    if (pid_ != 0) return;
    serve();
    leave();
  }
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  ChildProcess& operator=(ChildProcess&&) = delete;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  static pid_t begin();
  [[noreturn]] static void leave();

  pid_t pid_;
};

/// A coordinator of an elastic job of `agents` − 1 to `agents` nodes, in a process of its own. The first
/// round begins when all have come.
class CoordinatorProcess {
 public:
  CoordinatorProcess(int agents, const membership::Timing& timing);

  [[nodiscard]] Port port() const { return port_; }
  [[nodiscard]] double resident_bytes() const;

 private:
  int pipe_[2];
  ChildProcess process_;
  Port port_;
};

/// What happened to the agents of this process.
struct Counts {
  int rounds = 0;
  int stops = 0;
  int kills = 0;
};

/// Agents without workers: they obey at once, and count.
class Agents {
 public:
  Agents(boost::asio::io_context& io, int job_size, Port port);
  ~Agents();

  void join();
  /// The kernel closes its connection, as when it dies.
  void leave_last();
  [[nodiscard]] int size() const { return static_cast<int>(all_.size()); }
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  struct Agent;

  boost::asio::io_context& io_;
  int job_size_;
  Port port_;
  std::vector<std::unique_ptr<Agent>> all_;
  Counts counts_;
};

void run_for(boost::asio::io_context& io, std::chrono::nanoseconds time);

/// Runs until `count` is `wanted` and returns how many milliseconds that took. After a minute it gives up:
/// exits with 1.
double run_until(boost::asio::io_context& io, const int& count, int wanted);

}  // namespace ddprun::bench
