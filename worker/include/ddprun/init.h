#pragma once

#include <ddprun/exception.h>

#include <c10/core/Device.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace ddprun {

struct InitOptions {
  /// "auto", "nccl", "gloo", "shm", or one for each kind of device: "cpu:gloo,cuda:nccl". DDPRUN_BACKEND in
  /// the environment is used where this says "auto".
  std::string backend = "auto";
  /// "auto" (the GPU of this local rank where there is one, else the CPU), "cpu", "cuda" or "cuda:N".
  std::string device = "auto";
  /// How long a collective may take, and how long the ranks wait for each other at the start.
  std::chrono::milliseconds timeout{std::chrono::minutes(30)};
  /// Keep the memory of CPU tensors from step to step, rather than give it back to the kernel and get it anew: malloc
  /// of the whole process keeps up to a gigabyte. What GLIBC_TUNABLES says of malloc counts.
  bool keep_freed_memory = true;
  /// Told on every rank, within init(), which backend was chosen and why. Empty: rank 0 of a launched job prints that.
  std::function<void(const std::string& line)> log;
};

/// One worker's membership in the job: who it is, and the store and process group it shares with the others.
///
/// A cheap handle: copies share one membership, which ends when the last copy goes or `shutdown` is called.
/// Threads  all members but `shutdown` may be called from any thread.
class Context {
 public:
  [[nodiscard]] int rank() const;                    ///< 0 … world_size-1
  [[nodiscard]] int local_rank() const;              ///< index on this node
  [[nodiscard]] int world_size() const;              ///< workers in total
  [[nodiscard]] int local_world_size() const;        ///< workers on this node
  [[nodiscard]] int restart_count() const;           ///< how often the launcher has restarted the job
  [[nodiscard]] bool is_launched() const;            ///< false: started by hand, a world of one
  [[nodiscard]] const std::string& run_id() const;   ///< the launcher's job id; "none" without one
  [[nodiscard]] const std::string& log_dir() const;  ///< the launcher's folder for this start; "": none
  [[nodiscard]] const at::Device& device() const;    ///< where this worker's tensors belong

  /// The job's key-value store: a TCPStore client (a HashStore in a world of one) that all groups of this rank share.
  /// A thread that waits for a key blocks no other one. Its keys are those of the ranks that met in this init().
  [[nodiscard]] const c10::intrusive_ptr<c10d::Store>& store() const;
  /// The group of all ranks. Never null, also in a world of one.
  [[nodiscard]] const c10::intrusive_ptr<c10d::ProcessGroup>& process_group() const;
  [[nodiscard]] const std::string& backend() const;  ///< "nccl", "gloo", "shm", or "cpu:gloo,cuda:nccl"
  [[nodiscard]] const std::string& backend_reason() const;  ///< why that one, as a sentence

  /// Leaves in good order: waits until every rank has come here (at most `InitOptions::timeout`), then closes
  /// the group. Collective. Idempotent. Where the wait throws, or without it, the last handle closes the group.
  void shutdown();

  struct State;
  explicit Context(std::shared_ptr<State> state);

 private:
  std::shared_ptr<State> state_;
};

/// Joins the job described by the environment that ddprun or torchrun set. A program started by hand is a
/// world of one and works the same.
///
/// Order    collective: every rank calls it once, before its first tensor on a GPU and before its first
///          backward: libtorch looks for GPUs once, and starts the threads of its backward for those it found.
///          Programs that a worker runs one after the other each call it: the second of a rank meets the second of
///          the others.
/// Threads  on a GPU, the calling thread's current device is this rank's from then on. A thread of the
///          program's own begins with GPU 0: it sets the device itself (c10::DeviceGuard, with
///          `Context::device()`).
/// Errors   Exception kConfig: a variable is missing or malformed; and, with the same words on every rank, an
///          unknown backend, nccl without a GPU or left out of a build, ranks that ask for different backends,
///          a GPU on some ranks only; kUnavailable or kTimeout: the store or a peer cannot be reached.
Context init(const InitOptions& options = {});

}  // namespace ddprun
