#pragma once

#include "launcher/doctor/finding.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

/// A way out of this machine.
struct InterfaceFacts {
  std::string name;
  std::vector<std::string> addresses;  ///< IPv4 and global IPv6
  bool is_up = false;
  bool is_loopback = false;
  int megabits = 0;  ///< 0: it does not say, as virtual ones
};

/// What the Python that would run scripts says of itself, without importing torch.
struct PythonFacts {
  bool is_chosen = false;  ///< by PYTHON_EXEC
  std::string path;
  std::string error;    ///< why it says nothing; the rest is empty then
  std::string version;  ///< "3.11.2"
  std::string torch;    ///< its version; empty: not installed
  std::string torch_folder;
  std::string nccl;  ///< version of the NCCL package beside it; empty: none
};

/// All that a job's luck on this machine depends on, as far as it can be read without root, CUDA or a peer.
struct MachineFacts {
  bool has_proc = true;  ///< /proc is mounted
  std::string hostname;
  std::string kernel;  ///< "6.18.0"
  int usable_cpus = 0;
  int all_cpus = 0;
  std::optional<double> cpu_quota;  ///< cores that the cgroup may use; none: no limit
  std::uint64_t memory = 0;
  std::uint64_t memory_available = 0;
  std::optional<std::uint64_t> memory_limit;   ///< the cgroup's
  std::optional<std::uint64_t> pids_limit;     ///< the cgroup's
  int cgroup_version = 0;                      ///< 0: none is mounted
  std::vector<std::string> gpus;               ///< models; "GPU" where the driver does not say
  std::optional<std::string> visible_devices;  ///< CUDA_VISIBLE_DEVICES
  std::string driver;                          ///< version of NVIDIA's; empty: not loaded
  PythonFacts python;
  bool has_worker = false;      ///< ddprun-worker is beside ddprun
  std::uint64_t shm_bytes = 0;  ///< of /dev/shm; 0: not there
  std::uint64_t shm_available = 0;
  std::string shm_error;  ///< why no file can be made in it; empty: one can
  std::string temporary_directory;
  std::string temporary_error;  ///< as shm_error
  std::uint64_t temporary_available = 0;
  std::uint64_t open_files_hard = 0;           ///< the launcher raises the soft limit to it
  std::optional<std::uint64_t> locked_memory;  ///< none: no limit
  std::optional<std::uint64_t> core_bytes;     ///< none: no limit
  std::uint64_t huge_pages = 0;                ///< reserved ones
  std::string transparent_huge_pages;          ///< "always", "madvise", "never"; empty: the kernel has none
  std::string clock_source;                    ///< "tsc"; empty: unknown
  std::optional<bool> is_clock_synchronised;   ///< none: the kernel does not say
  std::optional<std::string> name_error;       ///< why this host's name cannot be looked up
  std::vector<std::string> name_addresses;
  double name_seconds = 0;
  std::vector<InterfaceFacts> interfaces;
  std::string route_address;                  ///< whence packets to other networks leave; empty: no route
  std::vector<std::string> infiniband;        ///< devices
  std::optional<std::string> nccl_interface;  ///< NCCL_SOCKET_IFNAME
  std::optional<std::string> gloo_interface;  ///< GLOO_SOCKET_IFNAME
  std::string scheduler;                      ///< "Slurm", "Kubernetes", …; empty: none
  bool is_container = false;
};

/// "2 × NVIDIA H100", or all of them where they differ; empty: none. Pure.
std::string describe_gpus(const std::vector<std::string>& gpus);

/// What is to be said of a machine, alone or as one of several that shall work together. Pure.
std::vector<Finding> examine(const MachineFacts& machine, bool is_one_of_several = false);

/// Its page for a person.
std::string render_doctor(const MachineFacts& machine, const std::vector<Finding>& findings);

/// The same for a program: { "host", "kernel", "findings": [{ "kind": "ok" | "note" | "wrong", "topic", "state", "mend"
/// where there is something to mend }], "wrong": how many are, "to_note": how many are }. Pure.
std::string doctor_json(const MachineFacts& machine, const std::vector<Finding>& findings);

/// Reads the facts. Blocks for a look-up of this host's name, and up to 20 s for Python.
MachineFacts read_machine();

}  // namespace ddprun::launcher
