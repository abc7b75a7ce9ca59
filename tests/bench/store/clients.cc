#include "tests/bench/store/clients.h"

#include "tests/support/no_name_server.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace ddprun::bench {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
using StorePtr = c10::intrusive_ptr<c10d::TCPStore>;

constexpr int kMostProcesses = 64;
constexpr const char* kKey = "key";

// Lies in memory that all processes share. Everybody sleeps on it: thousands who poll would be the load.
class Board {
 public:
  // `waiting` threads meet at the start line: the clients and the one who measures.
  explicit Board(int waiting) {
    ::sem_init(&histogram_lock_, kShared, 1);
    pthread_barrierattr_t attributes;
    ::pthread_barrierattr_init(&attributes);
    ::pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    for (pthread_barrier_t* line : {&ready_, &go_})
      ::pthread_barrier_init(line, &attributes, static_cast<unsigned>(waiting));
  }

  // All are connected and warm; then, when the one who measures says so, all start.
  void await_ready() { ::pthread_barrier_wait(&ready_); }
  void await_go() { ::pthread_barrier_wait(&go_); }

  void merge(const Histogram& mine) {
    wait(histogram_lock_);
    latencies.merge(mine);
    ::sem_post(&histogram_lock_);
  }

  Histogram latencies;
  std::atomic<std::int64_t> last_finish{0};

 private:
  static constexpr int kShared = 1;

  static void wait(sem_t& semaphore) {
    while (::sem_wait(&semaphore) != 0) {
    }
  }

  sem_t histogram_lock_;
  pthread_barrier_t ready_;
  pthread_barrier_t go_;
};

class SharedBoard {
 public:
  explicit SharedBoard(const Load& load) {
    void* memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("mmap failed");
    board_ = new (memory) Board(load.clients + 1);
  }
  ~SharedBoard() { ::munmap(board_, sizeof(Board)); }
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;
  Board& operator*() const { return *board_; }
  Board* operator->() const { return board_; }

 private:
  Board* board_;
};

StorePtr connect(std::uint16_t port) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.timeout = std::chrono::minutes(2);
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

// Forks the client processes; each runs `body(client, index)` for its share, on threads where it has several.
template <class Body>
class Clients {
 public:
  Clients(const Load& load, Body body) {
    const int processes = std::min(load.clients, kMostProcesses);
    for (int p = 0; p < processes; ++p) {
      const int first = load.clients * p / processes;
      const int count = load.clients * (p + 1) / processes - first;
      const pid_t pid = ::fork();
      if (pid == 0) run(load.port, body, count);
      pids_.push_back(pid);
    }
  }

  void join() {
    for (const pid_t pid : pids_) {
      int status = 0;
      ::waitpid(pid, &status, 0);
      if (status != 0) throw std::runtime_error("a client process failed");
    }
    pids_.clear();
  }

  ~Clients() {
    for (const pid_t pid : pids_) ::kill(pid, SIGKILL);
    for (const pid_t pid : pids_) ::waitpid(pid, nullptr, 0);
  }

 private:
  [[noreturn]] static void run(std::uint16_t port, Body body, int count) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::vector<StorePtr> clients;
    ddprun::testing::ask_no_name_server();
    for (int i = 0; i < count; ++i) clients.push_back(connect(port));
    clients.front()->set(kKey, std::vector<std::uint8_t>(64, 1));
    std::vector<std::thread> threads;
    for (const StorePtr& client : clients) {
      if (client != clients.front()) threads.emplace_back([&] { body(*client); });
    }
    body(*clients.front());
    for (std::thread& thread : threads) thread.join();
    std::_Exit(0);
  }

  std::vector<pid_t> pids_;
};

}  // namespace

Throughput measure_gets(const Load& load, const std::function<CpuTime()>& server_cpu) {
  const SharedBoard board(load);
  const auto get_for_a_while = [&board = *board, &load](c10d::TCPStore& client) {
    client.get(kKey);
    board.await_ready();
    board.await_go();
    Histogram latencies;
    SteadyTime now = std::chrono::steady_clock::now();
    const SteadyTime end = now + load.duration;
    while (now < end) {
      client.get(kKey);
      const SteadyTime after = std::chrono::steady_clock::now();
      latencies.add(after - now);
      now = after;
    }
    board.merge(latencies);
  };
  Clients clients(load, get_for_a_while);
  board->await_ready();
  const CpuTime before = server_cpu();
  board->await_go();
  clients.join();
  const CpuTime after = server_cpu();
  const double seconds = std::chrono::duration<double>(load.duration).count();
  const auto gets = static_cast<std::int64_t>(board->latencies.total());
  return {.gets_per_second = static_cast<double>(gets) / seconds,
          .p99 = board->latencies.quantile(0.99),
          .server_cpu = {after.total - before.total, after.own_code - before.own_code},
          .gets = gets};
}

BarrierResult measure_barrier(const Load& load, const std::function<std::size_t()>& server_bytes) {
  const SharedBoard board(load);
  const auto pass = [&board = *board, &load](c10d::TCPStore& client) {
    board.await_ready();
    board.await_go();
    if (client.add("arrived", 1) == load.clients) client.set("open", std::vector<std::uint8_t>(1, 1));
    client.wait({"open"}, std::chrono::minutes(2));
    board.last_finish = std::chrono::steady_clock::now().time_since_epoch().count();
  };
  Clients clients(load, pass);
  board->await_ready();
  BarrierResult result;
  result.server_bytes = server_bytes();
  const SteadyTime start = std::chrono::steady_clock::now();
  board->await_go();
  clients.join();
  result.duration = SteadyTime(std::chrono::steady_clock::duration(board->last_finish.load())) - start;
  return result;
}

}  // namespace ddprun::bench
