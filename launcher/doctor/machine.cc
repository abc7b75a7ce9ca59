#include "launcher/doctor/machine.h"

#include "launcher/text/text.h"
#include "rendezvous/membership/own_addresses.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::launcher {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kLittleShm = 1024 * kMiB;
constexpr std::uint64_t kLittleSpace = 512 * kMiB;
constexpr std::uint64_t kFewFiles = 4096;
constexpr double kSlowLookup = 1;

Finding about_cpus(const MachineFacts& machine) {
  const std::string state = fmt::format("{} of {}", machine.usable_cpus, machine.all_cpus);
  if (machine.cpu_quota && *machine.cpu_quota < machine.usable_cpus) {
    return to_note(
        "CPUs", fmt::format("{}, of which the cgroup gives the time of {:.3g}", state, *machine.cpu_quota),
        "--nproc-per-node auto counts CPUs, not their time: give the number, or raise the limit (docker run "
        "--cpus, resources.limits.cpu)");
  }
  return all_right("CPUs", state);
}

Finding about_memory(const MachineFacts& machine) {
  if (!machine.has_proc) return to_note("memory", "unknown without /proc");
  const std::string state =
      fmt::format("{} of {} are free", format_bytes(machine.memory_available), format_bytes(machine.memory));
  if (machine.memory_limit && *machine.memory_limit < machine.memory) {
    return to_note("memory",
                   fmt::format("{}; the cgroup may use {}", state, format_bytes(*machine.memory_limit)),
                   "whoever needs more is killed with SIGKILL (137): docker run --memory, "
                   "resources.limits.memory, sbatch "
                   "--mem raise it");
  }
  return all_right("memory", state);
}

Finding about_gpus(const MachineFacts& machine) {
  const std::size_t count = machine.gpus.size();
  if (count == 0 && machine.driver.empty()) return to_note("GPUs", "none: workers compute on CPUs");
  if (count == 0) {
    return all_wrong("GPUs", fmt::format("none, though driver {} is loaded", machine.driver),
                     "/dev/nvidia0 is not there: docker run --gpus all, resources.limits \"nvidia.com/gpu\", "
                     "sbatch --gpus; "
                     "on the host itself, run nvidia-smi once");
  }
  const std::string state = describe_gpus(machine.gpus);
  if (machine.driver.empty()) {
    return all_wrong("GPUs", state,
                     "NVIDIA's driver is not loaded: modprobe nvidia, or install it and start anew");
  }
  if (machine.visible_devices &&
      (machine.visible_devices->empty() || machine.visible_devices->starts_with('-'))) {
    return all_wrong("GPUs",
                     fmt::format("{}, driver {}, CUDA_VISIBLE_DEVICES=\"{}\"", state, machine.driver,
                                 *machine.visible_devices),
                     "the variable hides all of them: unset CUDA_VISIBLE_DEVICES");
  }
  const std::string visible =
      machine.visible_devices ? fmt::format(", CUDA_VISIBLE_DEVICES={}", *machine.visible_devices) : "";
  return all_right("GPUs", fmt::format("{}, driver {}{}", state, machine.driver, visible));
}

Finding about_python(const MachineFacts& machine) {
  const PythonFacts& python = machine.python;
  if (python.path.empty()) {
    if (!python.is_chosen) return to_note("Python", "none", python.error);
    return all_wrong("Python", "none", python.error + ": correct or unset it; every job of a script fails");
  }
  if (!python.error.empty())
    return all_wrong("Python", python.path, fmt::format("{}; PYTHON_EXEC names another", python.error));
  return all_right("Python", fmt::format("{} in {}", python.version, python.path));
}

Finding about_torch(const MachineFacts& machine) {
  const PythonFacts& python = machine.python;
  if (python.torch.empty()) {
    return to_note(
        "torch", "none beside that Python",
        python.path.empty() ? "" : fmt::format("scripts need it: {} -m pip install torch", python.path));
  }
  const std::string state = fmt::format("{} in {}", python.torch, python.torch_folder);
  if (!machine.gpus.empty() && python.torch.find("+cpu") != std::string::npos)
    return all_wrong("torch", state, "a build for CPUs, and here are GPUs: install a CUDA build of torch");
  return all_right("torch", state);
}

void add_nccl(const MachineFacts& machine, std::vector<Finding>& findings) {
  if (!machine.python.nccl.empty()) {
    findings.push_back(all_right("NCCL", machine.python.nccl));
  } else if (!machine.gpus.empty() && !machine.python.torch.empty()) {
    findings.push_back(
        to_note("NCCL", "no package of it beside torch", "a torch that was built here may link its own"));
  }
}

Finding about_worker(const MachineFacts& machine) {
  if (!machine.has_proc && !machine.has_worker) return to_note("job files", "unknown without /proc");
  return machine.has_worker ? all_right("job files", "ddprun-worker is beside ddprun")
                            : to_note("job files", "not here: ddprun-worker is not beside ddprun",
                                      "the wheel ddprun[worker] brings it, or scripts/quickstart.sh in a "
                                      "clone of ddprun builds it");
}

void add_proc(const MachineFacts& machine, std::vector<Finding>& findings) {
  if (machine.has_proc) return;
  findings.push_back(
      all_wrong("/proc", "not mounted",
                "ps, why and drain find no job without it, and processes that workers leave are not ended: "
                "mount -t proc proc /proc"));
}

Finding about_shm(const MachineFacts& machine) {
  if (machine.shm_bytes == 0) {
    return all_wrong("/dev/shm", "not there",
                     "data loaders, NCCL and shm keep what they share in it: mount -t tmpfs tmpfs /dev/shm");
  }
  if (!machine.shm_error.empty()) {
    return all_wrong("/dev/shm", fmt::format("no file can be made in it: {}", machine.shm_error),
                     "data loaders, NCCL and shm keep what they share in it: mount -o remount,rw /dev/shm, "
                     "chmod 1777 /dev/shm");
  }
  const std::string state =
      fmt::format("{} of {} are free", format_bytes(machine.shm_available), format_bytes(machine.shm_bytes));
  if (machine.shm_available >= kLittleShm) return all_right("/dev/shm", state);
  return all_wrong(
      "/dev/shm", state,
      machine.shm_bytes < kLittleShm
          ? "data loaders and NCCL need more, and die with SIGBUS: docker run --shm-size 8g (or --ipc host), "
            "a medium: Memory volume on /dev/shm, mount -o remount,size=8g /dev/shm"
          : "something fills it, and data loaders die with SIGBUS: ls -l /dev/shm says what");
}

Finding about_temporary(const MachineFacts& machine) {
  if (!machine.temporary_error.empty()) {
    return all_wrong(
        "logs",
        fmt::format("no file can be made in {}: {}", machine.temporary_directory, machine.temporary_error),
        "logs of jobs go there: choose a place that can be written, with --log-dir or TMPDIR");
  }
  const std::string state = fmt::format("{} are free in {}", format_bytes(machine.temporary_available),
                                        machine.temporary_directory);
  if (machine.temporary_available >= kLittleSpace) return all_right("logs", state);
  return all_wrong("logs", state,
                   "logs of jobs go there: make room, or choose another place with --log-dir or TMPDIR");
}

void add_limits(const MachineFacts& machine, std::vector<Finding>& findings) {
  const std::string files = machine.open_files_hard > (std::uint64_t{1} << 40)
                                ? std::string("no limit")
                                : fmt::format("up to {}", machine.open_files_hard);
  findings.push_back(
      machine.open_files_hard >= kFewFiles
          ? all_right("open files", files)
          : all_wrong(
                "open files", files,
                "a job of many workers and data loaders needs more: ulimit -Hn, LimitNOFILE of the unit, "
                "/etc/security/limits.conf"));
  const std::string locked = machine.locked_memory ? format_bytes(*machine.locked_memory) : "no limit";
  if (machine.locked_memory && !machine.infiniband.empty()) {
    findings.push_back(
        all_wrong("locked memory", locked,
                  "InfiniBand registers memory, which this forbids: ulimit -l unlimited, docker run --ulimit "
                  "memlock=-1, memlock in /etc/security/limits.conf"));
  } else {
    findings.push_back(all_right("locked memory", locked));
  }
  if (machine.core_bytes && *machine.core_bytes == 0) {
    findings.push_back(to_note("core files", "none are written",
                               "ulimit -c unlimited before ddprun keeps what crashes for gdb"));
  } else {
    findings.push_back(all_right(
        "core files", machine.core_bytes ? "up to " + format_bytes(*machine.core_bytes) : "no limit"));
  }
}

Finding about_cgroup(const MachineFacts& machine) {
  if (machine.cgroup_version == 0) return to_note("cgroup", "none is mounted");
  const std::string state = fmt::format("version {}", machine.cgroup_version);
  constexpr std::uint64_t kFewProcesses = 1024;
  if (machine.pids_limit && *machine.pids_limit < kFewProcesses) {
    return all_wrong("cgroup",
                     fmt::format("{}, at most {} processes and threads", state, *machine.pids_limit),
                     "a worker has dozens of threads: docker run --pids-limit, TasksMax of the unit");
  }
  return all_right("cgroup", state);
}

Finding about_huge_pages(const MachineFacts& machine) {
  const std::string reserved =
      machine.huge_pages == 0 ? "none reserved" : fmt::format("{} reserved", machine.huge_pages);
  if (machine.transparent_huge_pages.empty()) return to_note("huge pages", reserved);
  const std::string state = fmt::format("{}, transparent: {}", reserved, machine.transparent_huge_pages);
  if (machine.transparent_huge_pages != "never") return all_right("huge pages", state);
  return to_note(
      "huge pages", state,
      "large tensors are read faster with them: echo madvise >/sys/kernel/mm/transparent_hugepage/enabled");
}

Finding about_clock(const MachineFacts& machine) {
  const std::string source = machine.clock_source.empty() ? "unknown source" : machine.clock_source;
  if (machine.clock_source == "hpet" || machine.clock_source == "acpi_pm") {
    return all_wrong("clock", source,
                     "reading the time costs a microsecond and more: boot with tsc=reliable where it is");
  }
  if (machine.is_clock_synchronised == false) {
    return to_note("clock", source + ", not synchronised",
                   "logs of several machines cannot be laid side by side: start chrony or systemd-timesyncd");
  }
  return all_right("clock", source + (machine.is_clock_synchronised ? ", synchronised" : ""));
}

bool are_all_loopback(const std::vector<std::string>& addresses) {
  return std::all_of(addresses.begin(), addresses.end(), membership::is_loopback);
}

Finding about_name(const MachineFacts& machine, bool is_one_of_several) {
  if (machine.name_error) {
    return all_wrong(
        "name", *machine.name_error,
        fmt::format("gloo looks it up on each node: give it an address in /etc/hosts ({} {})",
                    machine.route_address.empty() ? "127.0.1.1" : machine.route_address, machine.hostname));
  }
  const std::string state =
      fmt::format("{} is {}", machine.hostname, fmt::join(machine.name_addresses, ", "));
  if (machine.name_seconds > kSlowLookup) {
    return all_wrong(
        "name", fmt::format("{}, which took {:.1f} s", state, machine.name_seconds),
        "a name server does not answer: correct /etc/resolv.conf, or write the hosts into /etc/hosts");
  }
  const bool is_told_otherwise = machine.gloo_interface && !machine.gloo_interface->empty();
  if (are_all_loopback(machine.name_addresses) && !machine.route_address.empty() && !is_told_otherwise) {
    const std::string mend = fmt::format(
        "gloo listens there, where no other node comes: for jobs of several nodes write {} {} into "
        "/etc/hosts, or set GLOO_SOCKET_IFNAME",
        machine.route_address, machine.hostname);
    // One machine alone can do with it, and so can NCCL, which looks up no name.
    return is_one_of_several && machine.gpus.empty() ? all_wrong("name", state, mend)
                                                     : to_note("name", state, mend);
  }
  return all_right("name", state);
}

const InterfaceFacts* leaves_by(const MachineFacts& machine) {
  for (const InterfaceFacts& interface : machine.interfaces) {
    if (std::find(interface.addresses.begin(), interface.addresses.end(), machine.route_address) !=
        interface.addresses.end())
      return &interface;
  }
  return nullptr;
}

std::string shown(const InterfaceFacts& interface) {
  const std::string speed =
      interface.megabits > 0 ? fmt::format(", {:.3g} Gbit/s", interface.megabits / 1000.0) : std::string();
  return fmt::format("{} ({}{}{})", interface.name, fmt::join(interface.addresses, ", "), speed,
                     interface.is_up ? "" : ", down");
}

Finding about_network(const MachineFacts& machine) {
  std::vector<std::string> others;
  const InterfaceFacts* const used = leaves_by(machine);
  for (const InterfaceFacts& interface : machine.interfaces) {
    if (&interface != used && !interface.is_loopback && !interface.addresses.empty())
      others.push_back(shown(interface));
  }
  const std::string beside = others.empty() ? "" : fmt::format("; also {}", fmt::join(others, ", "));
  if (used == nullptr) {
    return to_note("network", "no way to other machines" + beside, "jobs of one node do not need it");
  }
  return all_right("network", fmt::format("a job of several nodes leaves by {}{}", shown(*used), beside));
}

/// A variable of NCCL that has the beginnings of names, of which one is enough, "^" before them for all others, "="
/// for exactly these; or a variable of gloo, which has whole names, all of which it takes.
void add_chosen_interface(const MachineFacts& machine, std::string_view variable,
                          const std::optional<std::string>& chosen, std::vector<Finding>& findings) {
  if (!chosen || chosen->empty()) return;
  const std::string state = fmt::format("{}={}", variable, *chosen);
  if (chosen->front() == '^') return findings.push_back(all_right("network", state));
  const bool is_gloo = variable.starts_with("GLOO");
  const bool is_exact = is_gloo || chosen->front() == '=';
  const std::vector<std::string_view> wanted =
      split(std::string_view(*chosen).substr(chosen->front() == '=' ? 1 : 0), ',');
  const auto is_there = [&](std::string_view name) {
    return std::any_of(machine.interfaces.begin(), machine.interfaces.end(), [&](const auto& interface) {
      return is_exact ? interface.name == name : interface.name.starts_with(name);
    });
  };
  if (is_gloo ? std::all_of(wanted.begin(), wanted.end(), is_there)
              : std::any_of(wanted.begin(), wanted.end(), is_there))
    return findings.push_back(all_right("network", state));
  std::vector<std::string> names;
  for (const InterfaceFacts& interface : machine.interfaces) names.push_back(interface.name);
  findings.push_back(all_wrong(
      "network", state,
      fmt::format("there is no such interface, only {}: correct or unset it", fmt::join(names, ", "))));
}

Finding about_around(const MachineFacts& machine) {
  if (machine.scheduler.empty() && !machine.is_container)
    return all_right("around it", "no scheduler, no container");
  if (machine.scheduler.empty()) return all_right("around it", "a container, no scheduler");
  return all_right("around it", machine.scheduler + (machine.is_container ? ", in a container" : ""));
}

}  // namespace

std::string describe_gpus(const std::vector<std::string>& gpus) {
  const bool are_equal = std::adjacent_find(gpus.begin(), gpus.end(), std::not_equal_to<>()) == gpus.end();
  if (gpus.empty() || !are_equal) return fmt::format("{}", fmt::join(gpus, ", "));
  return fmt::format("{} × {}", gpus.size(), gpus.front());
}

std::vector<Finding> examine(const MachineFacts& machine, bool is_one_of_several) {
  std::vector<Finding> findings{about_cpus(machine), about_memory(machine), about_gpus(machine),
                                about_python(machine), about_torch(machine)};
  add_nccl(machine, findings);
  add_proc(machine, findings);
  findings.insert(findings.end(), {about_worker(machine), about_shm(machine), about_temporary(machine)});
  add_limits(machine, findings);
  findings.insert(findings.end(), {about_cgroup(machine), about_huge_pages(machine), about_clock(machine),
                                   about_name(machine, is_one_of_several), about_network(machine)});
  add_chosen_interface(machine, "NCCL_SOCKET_IFNAME", machine.nccl_interface, findings);
  add_chosen_interface(machine, "GLOO_SOCKET_IFNAME", machine.gloo_interface, findings);
  if (!machine.infiniband.empty())
    findings.push_back(all_right("InfiniBand", fmt::format("{}", fmt::join(machine.infiniband, ", "))));
  findings.push_back(about_around(machine));
  return findings;
}

std::string render_doctor(const MachineFacts& machine, const std::vector<Finding>& findings) {
  return fmt::format("{}, Linux {}\n\n{}", machine.hostname, machine.kernel, render_findings(findings));
}

}  // namespace ddprun::launcher
