#include <ddprun/exception.h>
#include <ddprun/replicas.h>

#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <condition_variable>
#include <exception>
#include <future>
#include <mutex>
#include <thread>

namespace ddprun::runtime {
namespace {

// A thread that does one job after the other.
class Worker {
 public:
  Worker() : thread_([this](const std::stop_token& stop) { work(stop); }) {}

  /// Ready when the job, which does not throw, is done.
  std::future<void> give(std::function<void()> job) {
    const std::lock_guard lock(mutex_);
    job_ = std::packaged_task<void()>(std::move(job));
    changed_.notify_one();
    return job_.get_future();
  }

 private:
  void work(const std::stop_token& stop) {
    at::init_num_threads();  // as many threads within an operation as the process was told to use
    for (;;) {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [this] { return job_.valid(); })) return;
      auto job = std::exchange(job_, {});
      lock.unlock();
      job();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::packaged_task<void()> job_;
  std::jthread thread_;  // last: it uses the others
};

// The caller's current stream of a device, which a new thread would not have.
std::optional<c10::Stream> current_stream(const at::Device& device) {
  if (device.is_cpu()) return std::nullopt;
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

std::string message_of(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  return torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
}

[[noreturn]] void rethrow_with_device(const std::exception_ptr& failure, const std::string& where) {
  try {
    std::rethrow_exception(failure);
  } catch (const Exception& error) {
    std::throw_with_nested(Exception(error.code(), where + error.what()));
  } catch (const std::exception& error) {
    std::throw_with_nested(std::runtime_error(where + message_of(error)));
  }
}

}  // namespace

struct ReplicaThreads::State {
  std::string who;
  std::vector<std::unique_ptr<Worker>> workers;
};

ReplicaThreads::ReplicaThreads(std::string who) : state_(std::make_unique<State>()) {
  state_->who = std::move(who);
}

ReplicaThreads::~ReplicaThreads() = default;

void ReplicaThreads::run(const std::vector<at::Device>& devices,
                         const std::function<void(std::size_t)>& task) {
  auto& workers = state_->workers;
  while (workers.size() + 1 < devices.size()) workers.push_back(std::make_unique<Worker>());
  std::vector<std::optional<c10::Stream>> streams;
  for (const at::Device& device : devices) streams.push_back(current_stream(device));

  std::vector<std::exception_ptr> failures(devices.size());
  const auto attempt = [&](std::size_t replica) {
    try {
      const c10::OptionalStreamGuard stream(streams[replica]);
      task(replica);
    } catch (...) {
      failures[replica] = std::current_exception();
    }
  };
  const at::ThreadLocalState modes;
  std::vector<std::future<void>> others;
  for (std::size_t replica = 1; replica < devices.size(); ++replica) {
    others.push_back(workers[replica - 1]->give([&, replica] {
      const at::ThreadLocalStateGuard same_modes(modes);
      attempt(replica);
    }));
  }
  attempt(0);
  for (const std::future<void>& other : others) other.wait();
  for (std::future<void>& other : others) other.get();
  for (std::size_t replica = 0; replica < failures.size(); ++replica) {
    if (!failures[replica]) continue;
    rethrow_with_device(failures[replica], fmt::format("{}: replica {} of {}, on {}, failed: ", state_->who,
                                                       replica, devices.size(), devices[replica].str()));
  }
}

}  // namespace ddprun::runtime
