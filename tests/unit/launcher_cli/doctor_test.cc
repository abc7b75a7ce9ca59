#include "launcher/doctor/hosts.h"
#include "launcher/doctor/machine.h"
#include "tests/support/catch.h"
#include "tests/unit/launcher_cli/golden_page.h"

#include <algorithm>
#include <string>
#include <vector>

using namespace ddprun::launcher;

namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

MachineFacts healthy_machine() {
  MachineFacts machine;
  machine.hostname = "node-a";
  machine.kernel = "6.1.0";
  machine.usable_cpus = machine.all_cpus = 64;
  machine.memory = 512 * kGiB;
  machine.memory_available = 500 * kGiB;
  machine.cgroup_version = 2;
  machine.gpus = {"NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"};
  machine.driver = "550.54.15";
  machine.python = {.path = "/env/bin/python3",
                    .error = {},
                    .version = "3.11.2",
                    .torch = "2.11.0",
                    .torch_folder = "/env/lib/python3.11/site-packages/torch",
                    .nccl = "2.29.7"};
  machine.has_worker = true;
  machine.shm_bytes = 256 * kGiB;
  machine.shm_available = 255 * kGiB;
  machine.temporary_directory = "/tmp";
  machine.temporary_available = 90 * kGiB;
  machine.open_files_hard = 1048576;
  machine.transparent_huge_pages = "madvise";
  machine.clock_source = "tsc";
  machine.is_clock_synchronised = true;
  machine.name_addresses = {"10.0.0.2"};
  machine.interfaces = {{.name = "lo", .addresses = {"127.0.0.1"}, .is_up = true, .is_loopback = true},
                        {.name = "eth0", .addresses = {"10.0.0.2"}, .is_up = true, .megabits = 25000},
                        {.name = "docker0", .addresses = {"172.17.0.1"}}};
  machine.route_address = "10.0.0.2";
  machine.infiniband = {"mlx5_0"};
  machine.scheduler = "Slurm, job 7";
  return machine;
}

MachineFacts broken_machine() {
  MachineFacts machine = healthy_machine();
  machine.usable_cpus = 8;
  machine.cpu_quota = 1.5;
  machine.memory_limit = 4 * kGiB;
  machine.pids_limit = 100;
  machine.visible_devices = "";
  machine.python.torch = "2.11.0+cpu";
  machine.python.nccl.clear();
  machine.has_worker = false;
  machine.shm_bytes = machine.shm_available = kGiB / 16;
  machine.temporary_available = 1024;
  machine.open_files_hard = 1024;
  machine.locked_memory = 8 << 20;
  machine.core_bytes = 0;
  machine.transparent_huge_pages = "never";
  machine.clock_source = "hpet";
  machine.name_error = "the name node-a cannot be resolved (name or service not known)";
  machine.nccl_interface = "ib0";
  machine.gloo_interface = "eth";
  machine.route_address = "";
  machine.scheduler = "Kubernetes";
  machine.is_container = true;
  return machine;
}

std::string page_of(const MachineFacts& machine) { return render_doctor(machine, examine(machine)); }

Finding finding_about(const MachineFacts& machine, const std::string& topic) {
  for (const Finding& finding : examine(machine)) {
    if (finding.topic == topic) return finding;
  }
  return {.topic = "nothing about " + topic, .state = {}};
}

}  // namespace

TEST_CASE("the page of a healthy machine reads as agreed") {
  CHECK(page_of(healthy_machine()) == golden_page("doctor_healthy.txt", page_of(healthy_machine())));
}

TEST_CASE("the page of a machine where all is wrong says how to mend each") {
  CHECK(page_of(broken_machine()) == golden_page("doctor_broken.txt", page_of(broken_machine())));
}

TEST_CASE("a program reads the same findings as JSON, with how many are wrong") {
  const MachineFacts machine = healthy_machine();
  const std::vector<Finding> findings{all_right("CPUs", "64 of 64"), to_note("GPUs", "none"),
                                      to_note("name", "slow"),
                                      all_wrong("/dev/shm", "64 MiB", "--shm-size 8g")};
  CHECK(doctor_json(machine, findings) == R"({
  "host": "node-a",
  "kernel": "6.1.0",
  "findings": [
    {
      "kind": "ok",
      "topic": "CPUs",
      "state": "64 of 64"
    },
    {
      "kind": "note",
      "topic": "GPUs",
      "state": "none"
    },
    {
      "kind": "note",
      "topic": "name",
      "state": "slow"
    },
    {
      "kind": "wrong",
      "topic": "/dev/shm",
      "state": "64 MiB",
      "mend": "--shm-size 8g"
    }
  ],
  "wrong": 1,
  "to_note": 2
}
)");
}

TEST_CASE("a machine without GPUs is nothing wrong, one whose GPUs cannot be reached is") {
  MachineFacts machine = healthy_machine();
  machine.gpus.clear();
  CHECK(finding_about(machine, "GPUs").kind == FindingKind::kWrong);
  machine.driver.clear();
  CHECK(finding_about(machine, "GPUs").kind == FindingKind::kNote);
  machine.gpus = {"GPU"};
  CHECK(finding_about(machine, "GPUs").mend ==
        "NVIDIA's driver is not loaded: modprobe nvidia, or install it and start anew");
}

TEST_CASE("room in a place that cannot be written is no room") {
  MachineFacts machine = healthy_machine();
  machine.shm_error = machine.temporary_error = "Permission denied";
  CHECK(finding_about(machine, "/dev/shm").kind == FindingKind::kWrong);
  CHECK(finding_about(machine, "/dev/shm").state == "no file can be made in it: Permission denied");
  CHECK(finding_about(machine, "logs").state == "no file can be made in /tmp: Permission denied");
}

TEST_CASE("what /proc would say is unknown without it") {
  MachineFacts machine = healthy_machine();
  machine.has_proc = machine.has_worker = false;
  CHECK(finding_about(machine, "/proc").kind == FindingKind::kWrong);
  CHECK(finding_about(machine, "memory").state == "unknown without /proc");
  CHECK(finding_about(machine, "job files").state == "unknown without /proc");
}

TEST_CASE("locked memory matters where InfiniBand is") {
  MachineFacts machine = healthy_machine();
  machine.locked_memory = 8 << 20;
  CHECK(finding_about(machine, "locked memory").kind == FindingKind::kWrong);
  machine.infiniband.clear();
  CHECK(finding_about(machine, "locked memory").kind == FindingKind::kOk);
}

TEST_CASE("a name that means the loopback is a trap for jobs of several nodes") {
  MachineFacts machine = healthy_machine();
  machine.name_addresses = {"127.0.1.1"};
  CHECK(finding_about(machine, "name").mend ==
        "gloo listens there, where no other node comes: for jobs of several nodes write 10.0.0.2 node-a into "
        "/etc/hosts, or set GLOO_SOCKET_IFNAME");
  // Among several hosts it is wrong, unless GPUs do the work.
  CHECK(sheet_of(machine, "0.1.0").wrong.empty());
  machine.gpus.clear();
  const std::vector<Finding> wrong = sheet_of(machine, "0.1.0").wrong;
  CHECK(std::any_of(wrong.begin(), wrong.end(),
                    [](const Finding& finding) { return finding.topic == "name"; }));
  machine.gloo_interface = "eth0";
  CHECK(finding_about(machine, "name").kind == FindingKind::kOk);
  machine.gloo_interface.reset();
  machine.name_addresses = {"127.0.1.1", "10.0.0.2"};
  CHECK(finding_about(machine, "name").kind == FindingKind::kOk);
  machine.name_seconds = 5.02;
  CHECK(finding_about(machine, "name").state == "node-a is 127.0.1.1, 10.0.0.2, which took 5.0 s");
}

TEST_CASE("no Python is a note, and one that was named and is not there is wrong") {
  MachineFacts machine = healthy_machine();
  machine.python = {.error = "python3 is not in PATH"};
  CHECK(finding_about(machine, "Python").kind == FindingKind::kNote);
  machine.python.is_chosen = true;
  CHECK(finding_about(machine, "Python").kind == FindingKind::kWrong);
}

TEST_CASE("NCCL takes the beginning of an interface's name, gloo the whole") {
  const auto chosen = [](const char* nccl, const char* gloo) {
    MachineFacts machine = healthy_machine();
    if (nccl != nullptr) machine.nccl_interface = nccl;
    if (gloo != nullptr) machine.gloo_interface = gloo;
    const std::vector<Finding> findings = examine(machine);
    return std::any_of(findings.begin(), findings.end(),
                       [](const Finding& each) { return each.kind == FindingKind::kWrong; });
  };
  CHECK_FALSE(chosen("eth", nullptr));
  CHECK_FALSE(chosen("^docker", nullptr));
  CHECK_FALSE(chosen("=eth0", nullptr));
  CHECK(chosen("=eth", nullptr));
  CHECK(chosen("ib", nullptr));
  CHECK_FALSE(chosen("ib,eth", nullptr));
  CHECK_FALSE(chosen("=ib0,eth0", nullptr));
  CHECK(chosen(nullptr, "eth0,ib0"));
  CHECK_FALSE(chosen(nullptr, "eth0"));
  CHECK(chosen(nullptr, "eth"));
}
