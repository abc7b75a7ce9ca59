// A job of libddprun of which one rank hangs: hang_program HANG CULPRIT, as hangs.py is one of Python.
//
// The culprit writes a line with its pid into the FIFO WHY_READY when nothing but the hang is left to do. WHY_FOLDER
// is a folder for whatever it needs.
#include <ddprun/distributed_data_parallel.h>
#include <ddprun/group.h>
#include <ddprun/init.h>
#include <ddprun/progress.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using Process = c10::intrusive_ptr<c10d::ProcessGroup>;

struct Job {
  const ddprun::Context& context;
  Process world;
  at::Tensor data = torch::ones({1000});
};

std::string folder() { return std::getenv("WHY_FOLDER"); }

void ready() { std::ofstream(std::getenv("WHY_READY")) << ::getpid() << std::endl; }

void all_reduce(const Process& group, const at::Tensor& data) {
  std::vector<at::Tensor> tensors{data};
  group->allreduce(tensors)->wait();
}

/// Ends for nobody.
void sleep_for_ever() {
  for (;;) ::sleep(1000);
}

void compute_for_ever() {
  for (std::atomic<std::uint64_t> n = 0;; ++n) continue;
}

std::string silent_fifo() {
  const std::string path = folder() + "/fifo";
  ::mkfifo(path.c_str(), 0600);
  ::open(path.c_str(), O_RDWR);  // a writer, which says nothing
  return path;
}

void skips_one(Job& job) {
  ready();
  job.world->barrier()->wait();
}

void reads_a_fifo(Job&) {
  const int file = ::open(silent_fifo().c_str(), O_RDONLY);
  char byte = 0;
  ready();
  while (::read(file, &byte, 1) != 1) continue;
}

void stopped(Job&) {
  ready();
  sleep_for_ever();
}

void loops_in_cpp(Job&) {
  ready();
  compute_for_ever();
}

void two_locks(Job&) {
  static std::mutex first, second;
  first.lock();
  std::thread([] {
    const std::lock_guard other(second);
    const std::lock_guard lock(first);
  }).detach();
  // The other thread has `second` once this one may have neither.
  while (second.try_lock()) {
    second.unlock();
    std::this_thread::yield();
  }
  ready();
  second.lock();
}

/// The thread that was to give the next item has swallowed its exception and ended.
void thread_died(Job&) {
  static std::mutex mutex;
  static std::condition_variable has_item;
  static bool is_there = false;
  std::thread([] {
    try {
      throw std::runtime_error("a bad record");
      is_there = true;
    } catch (const std::exception&) {
    }
  }).join();
  std::unique_lock lock(mutex);
  ready();
  has_item.wait(lock, [] { return is_there; });
}

void fills_a_pipe(Job&) {
  FILE* const child = ::popen("exec sleep 1000", "w");
  const std::string much(1'000'000, 'x');
  ready();
  std::fwrite(much.data(), 1, much.size(), child);
}

void runs_a_program(Job&) {
  ready();
  (void)std::system("exec sleep 1000");
}

void waits_for_a_key(Job& job) {
  ready();
  job.context.store()->get("a key that nobody sets");
}

void receives_from_nobody(Job& job) {
  std::vector<at::Tensor> one{torch::ones({1})};
  ready();
  job.world->recv(one, 0, 0)->wait();
}

void peer_exited(Job&) {
  ready();
  ::_exit(0);
}

/// DistributedDataParallel without join, and one rank has a batch less: it is at the barrier of the end.
void uneven_inputs(Job& job) {
  const bool is_short = job.context.rank() == 1;
  ddprun::DistributedDataParallel model(torch::nn::Linear(10, 10), job.context);
  for (int step = 0; step < (is_short ? 3 : 4); ++step) {
    if (is_short && step == 2) ready();
    model.forward(torch::ones({4, 10})).sum().backward();
  }
  job.world->barrier()->wait();
  sleep_for_ever();
}

void evaluates_alone(Job&) {
  ddprun::note_step(1200);
  ddprun::note_phase("evaluates");
  ready();
  compute_for_ever();
}

void saves_to_a_stuck_disk(Job&) {
  const int file = ::open(silent_fifo().c_str(), O_WRONLY);
  const std::string much(1'000'000, 'x');
  ddprun::note_phase("saves");
  ready();
  while (::write(file, much.data(), much.size()) > 0) continue;
}

void other_group(Job& job) {
  const ddprun::Group two = ddprun::new_group(job.context, {0, 1});
  const bool is_culprit = job.context.rank() == 1;
  for (int i = 0; i < 5; ++i) all_reduce(job.world, job.data);
  if (is_culprit) {
    ready();
    two.process_group()->barrier()->wait();
  }
  all_reduce(job.world, job.data);
  sleep_for_ever();
}

/// Each step meets all ranks, and the culprit comes late by so much.
void in_steps(Job& job, bool is_culprit, std::chrono::milliseconds late) {
  for (int step = 0;; ++step) {
    if (is_culprit) std::this_thread::sleep_for(late);
    at::Tensor x = torch::ones({200, 200});
    for (int i = 0; i < 5; ++i) x = x.mm(x) / 200;
    all_reduce(job.world, job.data);
    if (is_culprit && step == 20) ready();
  }
}

const std::map<std::string, std::function<void(Job&)>> kHangs{
    {"skips_one", skips_one},
    {"reads_a_fifo", reads_a_fifo},
    {"stopped", stopped},
    {"debugged", stopped},
    {"loops_in_cpp", loops_in_cpp},
    {"two_locks", two_locks},
    {"thread_died", thread_died},
    {"fills_a_pipe", fills_a_pipe},
    {"runs_a_program", runs_a_program},
    {"waits_for_a_key", waits_for_a_key},
    {"receives_from_nobody", receives_from_nobody},
    {"peer_exited", peer_exited},
    {"evaluates_alone", evaluates_alone},
    {"saves_to_a_stuck_disk", saves_to_a_stuck_disk}};

}  // namespace

int main(int count, char** words) {
  if (count != 3) return 2;
  const std::string hang = words[1];
  const int culprit = std::atoi(words[2]);
  const ddprun::Context context = ddprun::init({.keep_freed_memory = false});
  Job job{context, context.process_group()};
  const bool is_culprit = context.rank() == culprit;
  if (hang == "uneven_inputs") uneven_inputs(job);
  if (hang == "other_group") other_group(job);
  if (hang == "slow") in_steps(job, is_culprit, std::chrono::milliseconds(300));
  if (hang == "fine") in_steps(job, is_culprit, std::chrono::milliseconds(0));
  for (int i = 0; i < 5; ++i) all_reduce(job.world, job.data);
  if (hang == "peer_exited" && !is_culprit) {
    job.context.store()->get("what the culprit would have set");
  } else if (is_culprit) {
    kHangs.at(hang)(job);
  }
  all_reduce(job.world, job.data);
  job.world->barrier()->wait();
  sleep_for_ever();
}
