#include "launcher/doctor/machine.h"
#include "launcher/plan/entrypoint.h"
#include "launcher/plan/host.h"
#include "launcher/process/cgroup.h"
#include "launcher/process/run_program.h"
#include "launcher/text/text.h"
#include "rendezvous/base/name_lookup.h"
#include "rendezvous/base/read_text.h"
#include "rendezvous/base/unique_fd.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string_view>
#include <system_error>

namespace ddprun::launcher {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kPythonLimit{20};

/// Asks for versions, and imports nothing that is large.
constexpr const char* kAskPython = R"(
import importlib.util as u, importlib.metadata as m, json, sys
def of(name):
    try: return m.version(name)
    except Exception: return ""
spec = u.find_spec("torch")
nccl = [v for v in map(of, ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11")) if v]
print(json.dumps({"version": sys.version.split()[0], "torch": of("torch") if spec else "",
    "folder": (spec.submodule_search_locations or [""])[0] if spec else "", "nccl": nccl[0] if nccl else ""}))
)";

std::string line_of(const std::string& path) { return std::string(trim_blanks(read_text(path))); }

template <typename Number>
std::optional<Number> number_in(const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  return value;
}

/// "MemTotal:  16384 kB" of /proc/meminfo, in bytes.
std::uint64_t memory_line(const std::string& text, std::string_view key) {
  return number_of(text, key) * 1024;
}

void read_cgroup(MachineFacts& machine) {
  std::error_code ignored;
  machine.cgroup_version = fs::exists("/sys/fs/cgroup/cgroup.controllers", ignored) ? 2
                           : fs::exists("/sys/fs/cgroup/memory", ignored)           ? 1
                                                                                    : 0;
  machine.memory_limit = cgroup_memory_limit();
  if (const auto limit = tightest_cgroup_line("pids.max"))
    machine.pids_limit = number_in<std::uint64_t>(*limit);
  if (const auto quota = tightest_cgroup_line("cpu.max")) {
    const auto period =
        number_in<std::uint64_t>(quota->substr(std::min(quota->find(' ') + 1, quota->size())));
    const auto share = number_in<std::uint64_t>(*quota);
    if (period && share && *period > 0)
      machine.cpu_quota = static_cast<double>(*share) / static_cast<double>(*period);
  }
}

void read_gpus(MachineFacts& machine, const HostFacts& host) {
  machine.visible_devices = host.env("CUDA_VISIBLE_DEVICES");
  machine.driver = line_of("/sys/module/nvidia/version");
  machine.gpus.assign(static_cast<std::size_t>(count_gpu_device_files()), "GPU");
  std::vector<std::string> models;
  for (const GpuCard& card : read_gpu_cards()) {
    if (const std::string_view model = value_of(card.information, "Model"); !model.empty())
      models.emplace_back(model);
  }
  if (models.size() == machine.gpus.size()) machine.gpus = std::move(models);
}

Result<std::string> output_of(const std::vector<std::string>& words, std::chrono::seconds limit) {
  ProgramOutput output = run_program(words, limit);
  if (output.refused != 0) return Error(ErrorCode::kCannotExecute, std::strerror(output.refused));
  if (!output.has_ended)
    return Error(ErrorCode::kTimeout, fmt::format("it says nothing for {} s", limit.count()));
  if (output.code != 0) return Error(ErrorCode::kCannotExecute, "it cannot tell its own version");
  return std::move(output.out);
}

PythonFacts read_python(const HostFacts& host) {
  PythonFacts facts;
  facts.is_chosen = !host.env("PYTHON_EXEC").value_or("").empty();
  const Result<std::string> path = find_python(host);
  if (!path) {
    facts.error = path.error().message();
    return facts;
  }
  facts.path = *path;
  const Result<std::string> said = output_of({*path, "-c", kAskPython}, kPythonLimit);
  if (!said) {
    facts.error = said.error().message();
    return facts;
  }
  const nlohmann::json answer = nlohmann::json::parse(*said, nullptr, false);
  if (!answer.is_object()) {
    facts.error = "it does not answer as Python 3.8 and newer do";
    return facts;
  }
  facts.version = answer.value("version", "");
  facts.torch = answer.value("torch", "");
  facts.torch_folder = answer.value("folder", "");
  facts.nccl = answer.value("nccl", "");
  return facts;
}

std::optional<std::uint64_t> limit_of(int resource, bool is_hard) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) return std::nullopt;
  const rlim_t value = is_hard ? limit.rlim_max : limit.rlim_cur;
  if (value == RLIM_INFINITY) return std::nullopt;
  return value;
}

/// Why no file can be made in a directory; empty: one can. It leaves none.
std::string why_unwritable(const std::string& directory) {
  const UniqueFd file(::open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (file) return {};
  const bool is_unknown = errno == EOPNOTSUPP || errno == EISDIR;  // to this file system or kernel
  return is_unknown && ::access(directory.c_str(), W_OK | X_OK) == 0 ? "" : std::strerror(errno);
}

void read_space(MachineFacts& machine, const HostFacts& host) {
  struct statvfs space {};
  if (::statvfs("/dev/shm", &space) == 0) {
    machine.shm_bytes = space.f_blocks * space.f_frsize;
    machine.shm_available = space.f_bavail * space.f_frsize;
    machine.shm_error = why_unwritable("/dev/shm");
  }
  // A job makes what is not there of it.
  std::filesystem::path temporary = host.temporary_directory;
  std::error_code ignored;
  while (!std::filesystem::exists(temporary, ignored) && temporary.has_relative_path())
    temporary = temporary.parent_path();
  machine.temporary_directory = temporary.string();
  machine.temporary_error = why_unwritable(temporary.string());
  if (::statvfs(temporary.c_str(), &space) == 0)
    machine.temporary_available = space.f_bavail * space.f_frsize;
}

void read_kernel(MachineFacts& machine) {
  utsname names{};
  if (::uname(&names) == 0) machine.kernel = names.release;
  const std::string memory = read_text("/proc/meminfo");
  machine.has_proc = !memory.empty();
  machine.memory = memory_line(memory, "MemTotal");
  machine.memory_available = memory_line(memory, "MemAvailable");
  machine.all_cpus = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  machine.open_files_hard = limit_of(RLIMIT_NOFILE, true).value_or(~std::uint64_t{0});
  machine.locked_memory = limit_of(RLIMIT_MEMLOCK, false);
  machine.core_bytes = limit_of(RLIMIT_CORE, false);
  machine.huge_pages = number_in<std::uint64_t>(read_text("/proc/sys/vm/nr_hugepages")).value_or(0);
  const std::string transparent = read_text("/sys/kernel/mm/transparent_hugepage/enabled");
  const std::size_t open = transparent.find('[');
  const std::size_t shut = transparent.find(']');
  if (open != std::string::npos && shut != std::string::npos)
    machine.transparent_huge_pages = transparent.substr(open + 1, shut - open - 1);
  machine.clock_source = line_of("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  timex clock{};
  if (::adjtimex(&clock) >= 0) machine.is_clock_synchronised = (clock.status & STA_UNSYNC) == 0;
}

std::string shown(const sockaddr& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* const from =
      address.sa_family == AF_INET
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(address).sin_addr)
          : &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return ::inet_ntop(address.sa_family, from, text.data(), text.size()) == nullptr ? "" : text.data();
}

bool is_listed(const sockaddr* address) {
  if (address == nullptr) return false;
  if (address->sa_family == AF_INET) return true;
  return address->sa_family == AF_INET6 &&
         !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

std::vector<InterfaceFacts> read_interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(list, ::freeifaddrs);
  std::vector<InterfaceFacts> interfaces;
  std::map<std::string, std::size_t> index;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    const auto [place, is_new] = index.try_emplace(each->ifa_name, interfaces.size());
    if (is_new) {
      interfaces.push_back({.name = each->ifa_name,
                            .addresses = {},
                            .is_up = (each->ifa_flags & IFF_RUNNING) != 0,
                            .is_loopback = (each->ifa_flags & IFF_LOOPBACK) != 0});
      const auto speed = number_in<int>(read_text(fmt::format("/sys/class/net/{}/speed", each->ifa_name)));
      interfaces.back().megabits = std::max(speed.value_or(0), 0);
    }
    if (is_listed(each->ifa_addr)) interfaces[place->second].addresses.push_back(shown(*each->ifa_addr));
  }
  return interfaces;
}

/// Whence packets to another network would leave. None is sent.
std::string own_route_address() {
  const UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in far{};
  far.sin_family = AF_INET;
  far.sin_port = htons(9);
  far.sin_addr.s_addr = htonl(0xC0000201);  // 192.0.2.1, which is nobody's (RFC 5737)
  sockaddr_in from{};
  socklen_t size = sizeof from;
  if (!fd || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&far), sizeof far) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&from), &size) != 0)
    return {};
  return shown(reinterpret_cast<const sockaddr&>(from));
}

void read_network(MachineFacts& machine, const HostFacts& host) {
  const auto begin = std::chrono::steady_clock::now();
  const Result<HostAddresses> addresses = look_up(machine.hostname);
  machine.name_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (addresses) {
    machine.name_addresses = *addresses;
  } else {
    machine.name_error = addresses.error().message();
  }
  machine.interfaces = read_interfaces();
  machine.route_address = own_route_address();
  machine.infiniband = names_in("/sys/class/infiniband");
  machine.nccl_interface = host.env("NCCL_SOCKET_IFNAME");
  machine.gloo_interface = host.env("GLOO_SOCKET_IFNAME");
}

void read_around(MachineFacts& machine, const HostFacts& host) {
  if (const auto job = host.env("SLURM_JOB_ID")) machine.scheduler = fmt::format("Slurm, job {}", *job);
  if (host.env("OMPI_COMM_WORLD_SIZE")) machine.scheduler = "Open MPI";
  if (host.env("KUBERNETES_SERVICE_HOST")) machine.scheduler = "Kubernetes";
  std::error_code ignored;
  machine.is_container = fs::exists("/.dockerenv", ignored) || fs::exists("/run/.containerenv", ignored) ||
                         host.env("container").has_value() || host.env("KUBERNETES_SERVICE_HOST").has_value();
}

}  // namespace

MachineFacts read_machine() {
  const HostFacts host = read_host(Topology::kSkip);
  MachineFacts machine;
  machine.hostname = host.hostname;
  machine.usable_cpus = static_cast<int>(host.cpus.size());
  machine.has_worker = find_worker(host.self_directory).has_value();
  read_kernel(machine);
  read_cgroup(machine);
  read_gpus(machine, host);
  machine.python = read_python(host);
  read_space(machine, host);
  read_network(machine, host);
  read_around(machine, host);
  return machine;
}

}  // namespace ddprun::launcher
