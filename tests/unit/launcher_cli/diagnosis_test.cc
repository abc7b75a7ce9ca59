#include "launcher/report/diagnosis.h"

#include "launcher/output/traceback_scanner.h"
#include "launcher/process/process_table.h"
#include "launcher/report/evidence.h"
#include "launcher/report/symptom.h"
#include "launcher/text/text.h"
#include "tests/support/catch.h"
#include "tests/unit/launcher_cli/temporary_directory.h"

#include <csignal>
#include <fstream>
#include <string>

using namespace ddprun::launcher;
using ddprun::testing::TemporaryDirectory;

namespace {

// As the reporter does it: what is on stderr goes through the scanner first.
LastWords words_of(std::string_view on_stderr) {
  TracebackScanner scanner;
  scanner.feed(on_stderr);
  return {.stderr_tail = on_stderr, .traceback = scanner.last()};
}

std::string said(const ExitStatus& status, std::string_view on_stderr, const Evidence& evidence = {}) {
  return diagnose(status, words_of(on_stderr), evidence).value_or("nothing");
}

std::string printed(const std::string& text) {
  return "Traceback (most recent call last):\n  File \"t.py\", line 1, in f\n" + text + "\n";
}

}  // namespace

TEST_CASE("out of memory is said when the kernel says so, and only suspected otherwise") {
  Evidence evidence;
  CHECK(said(ExitStatus::killed(SIGKILL), "") ==
        "killed from outside: by kill -9, a scheduler, or the kernel when memory ran out (look at dmesg; its "
        "log cannot be "
        "read from here or does not mention it)");
  evidence.oom_kill_in_cgroup = true;
  evidence.memory_limit = 512ULL << 20;
  CHECK(said(ExitStatus::killed(SIGKILL), "", evidence) ==
        "out of memory: the kernel killed a process of this cgroup, whose limit is 512 MiB");
  evidence.oom_kernel_line = "Killed process 7 (python3) total-vm:9kB";
  CHECK(said(ExitStatus::killed(SIGKILL), "", evidence) ==
        "out of memory: the kernel killed it (Killed process 7 (python3) total-vm:9kB)");
}

TEST_CASE("the kernel log is searched for this pid and no other") {
  const std::string log =
      "6,1,1,-;Killed process 71 (a)\n4,2,2,-;Memory cgroup out of memory: Killed process 7 (python3) "
      "total-vm:1kB\n6,3,3,-;x\n";
  CHECK(find_oom_kill(log, 7) == "Memory cgroup out of memory: Killed process 7 (python3) total-vm:1kB");
  CHECK(find_oom_kill(log, 8).empty());
  CHECK(number_of("low 1\noom 4\noom_kill 3\n", "oom_kill") == 3);
  CHECK(number_of("oom_kill_disable 0\nunder_oom 0\n", "oom_kill") == 0);
  CHECK(number_of("SigQ:\t1\nSigIgn:\t0000000000001001\n", "SigIgn", 16) == 0x1001);
  CHECK(value_of("NoName:\tx\nName:\tpt main thread \n", "Name") == "pt main thread ");
  CHECK(value_of("Max file locks            unlimited  7\n", "Max file locks") == "unlimited  7");
  CHECK(value_of("Name:\n", "Name").empty());
}

TEST_CASE("an out-of-memory kill before a generation is nothing to its workers, whoever had their pid") {
  const TemporaryDirectory folder;
  const std::string log = folder.path() + "/kmsg";
  const auto record = [&](const std::string& text) {
    std::ofstream(log, std::ios::app) << "6,1,1,-;" << text << "\n";
  };
  record("Out of memory: Killed process 7 (notepad) total-vm:1kB");
  OomWatch oom(log);
  CHECK(oom.sentence_about(7).empty());
  record("Out of memory: Killed process 7 (python3) total-vm:9kB");
  record("Out of memory: Killed process 8 (python3) total-vm:9kB");
  for (const int pid : {8, 7}) {
    CHECK(gather_evidence(ExitStatus::killed(SIGKILL), pid, oom, {}).oom_kernel_line ==
          "Out of memory: Killed process " + std::to_string(pid) + " (python3) total-vm:9kB");
  }
  oom.begin_generation();
  CHECK(oom.sentence_about(7).empty());
  CHECK(OomWatch("").sentence_about(7).empty());
}

TEST_CASE("the kernel's log is no witness where its pids are not ours") {
  CHECK(kernel_log_file() == (sees_all_processes() ? "/dev/kmsg" : ""));
}

TEST_CASE("faults are named, with the core where there is one") {
  Evidence evidence;
  CHECK(said(ExitStatus::killed(SIGSEGV), "") == "segmentation fault: it touched memory that is not its own");
  evidence.core_pattern = "core.%p";
  CHECK(said(ExitStatus::killed(SIGSEGV, true), "", evidence) ==
        "segmentation fault: it touched memory that is not its own; a core was dumped (pattern core.%p)");
  evidence.core_pattern = "|/lib/systemd/systemd-coredump %P";
  CHECK(said(ExitStatus::killed(SIGSEGV, true), "", evidence) ==
        "segmentation fault: it touched memory that is not its own; a core was dumped: see coredumpctl");
  CHECK(said(ExitStatus::killed(SIGFPE), "") == "arithmetic fault: most often an integer division by zero");
}

TEST_CASE("a bus error with a full /dev/shm names both") {
  Evidence evidence;
  evidence.shm_size = 64ULL << 20;
  evidence.shm_free = 0;
  CHECK(said(ExitStatus::killed(SIGBUS), "", evidence) ==
        "bus error with a full /dev/shm: 64 MiB of 64 MiB are used; make it larger (docker run --shm-size) "
        "or use fewer data "
        "loader workers");
  evidence.shm_size = evidence.shm_free = 32ULL << 30;
  CHECK(said(ExitStatus::killed(SIGBUS), "", evidence) ==
        "bus error: a mapped file was cut short or its disk failed");
}

TEST_CASE("a small /dev/shm is suspected after a bus error, and named when torch blames it") {
  Evidence evidence;
  evidence.shm_size = evidence.shm_free = 64ULL << 20;
  CHECK(said(ExitStatus::killed(SIGBUS), "", evidence) ==
        "bus error: /dev/shm is only 64 MiB here, and may have been full; make it larger (docker run "
        "--shm-size) or use fewer "
        "data loader workers");
  CHECK(said(ExitStatus::exited(1), "ERROR: Unexpected bus error ... insufficient shared memory (shm).\n",
             evidence) ==
        "a data loader process found /dev/shm full (64 MiB); make it larger (docker run --shm-size) or use "
        "fewer data loader "
        "workers");
}

TEST_CASE("a missing shared library is named") {
  CHECK(said(ExitStatus::exited(127),
             "./t: error while loading shared libraries: libfoo.so.1: cannot open shared object file: No "
             "such file or "
             "directory\n") ==
        "missing shared library libfoo.so.1: install it, or add its folder to LD_LIBRARY_PATH");
}

TEST_CASE("a missing interpreter is named") {
  CHECK(said(ExitStatus::exited(127), "/usr/bin/env: 'python2': No such file or directory\n") ==
        "missing interpreter: the script's first line asks for a program that is not in PATH (/usr/bin/env: "
        "'python2': No such "
        "file or directory)");
}

TEST_CASE("a Python exception is named from the traceback, without @record") {
  const std::string_view tail =
      "step 3\nTraceback (most recent call last):\n  File \"t.py\", line 3, in <module>\n    f()\n"
      "  File \"t.py\", line 2, in f\n    raise ValueError('bad value')\nValueError: bad value\n";
  CHECK(said(ExitStatus::exited(1), tail) == "uncaught Python exception ValueError: bad value");
  CHECK(said(ExitStatus::exited(1), "CUDA: Traceback of nothing\n") == "nothing");
}

// As torch 2.11 with gloo prints and ends it.
TEST_CASE(
    "a Python exception is named behind PyTorch's prefix, also where C++ ends the process on its way out") {
  const std::string_view tail =
      "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"t.py\", line 90, in compute_loss\n"
      "[rank1]:     raise ValueError('nan')\n[rank1]: ValueError: loss is nan at step 5\n"
      "terminate called without an active exception\n";
  CHECK(said(ExitStatus::exited(1), tail) == "uncaught Python exception ValueError: loss is nan at step 5");
  CHECK(said(ExitStatus::killed(SIGABRT), tail) ==
        "uncaught Python exception ValueError: loss is nan at step 5");
}

TEST_CASE("an exception says where it came from, and a group what is in it") {
  const std::string first =
      "Traceback (most recent call last):\n  File \"t.py\", line 1, in f\nValueError: nan\n";
  CHECK(
      said(ExitStatus::exited(1),
           first +
               "\nThe above exception was the direct cause of the following exception:\n\n"
               "Traceback (most recent call last):\n  File \"t.py\", line 2, in g\nRuntimeError: failed\n") ==
      "uncaught Python exception RuntimeError: failed, from ValueError: nan");
  CHECK(
      said(ExitStatus::exited(1),
           "  + Exception Group Traceback (most recent call last):\n  |   File \"t.py\", line 1, in f\n"
           "  | ExceptionGroup: two failed (2 sub-exceptions)\n  +-+---------------- 1 ----------------\n"
           "    | ValueError: bad batch\n    +---------------- 2 ----------------\n    | KeyError: 'label'\n"
           "    +------------------------------------\n") ==
      "uncaught Python exception ExceptionGroup: two failed (2 sub-exceptions): ValueError: bad batch; "
      "KeyError: "
      "'label'");
}

TEST_CASE("a killed data loader process is named as such") {
  CHECK(said(ExitStatus::exited(1),
             "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"t.py\", line 1, in f\n"
             "[rank1]: RuntimeError: DataLoader worker (pid 9237) is killed by signal: Killed. \n") ==
        "one of its data loader processes (pid 9237) was killed: Killed; most often by the kernel, when "
        "memory ran out");
}

TEST_CASE("a data loader process that left is named as such, with its code where that is told") {
  CHECK(said(ExitStatus::exited(1),
             printed("RuntimeError: DataLoader worker (pid 9237) exited unexpectedly with "
                     "exit code 9. Details are lost due to multiprocessing.")) ==
        "one of its data loader processes (pid 9237) exited with code 9");
  CHECK(said(ExitStatus::exited(1), printed("ConnectionResetError: [Errno 104] Connection reset by peer") +
                                        "\nThe above exception was the direct cause of the following "
                                        "exception:\n\n" +
                                        printed("RuntimeError: DataLoader worker (pid(s) 9237) exited "
                                                "unexpectedly")) ==
        "one of its data loader processes (pid 9237) exited unexpectedly");
  CHECK(said(ExitStatus::exited(1),
             "Traceback (most recent call last):\n"
             "  File \"/p/torch/utils/data/dataloader.py\", line 1310, in _try_get_data\n"
             "    data = self._data_queue.get(timeout=timeout)\n"
             "  File \"/p/multiprocessing/connection.py\", line 395, in _recv\n"
             "ConnectionResetError: [Errno 104] Connection reset by peer\n") ==
        "lost the connection to one of its data loader processes, which has ended or been killed: "
        "ConnectionResetError: [Errno 104] Connection reset by peer");
}

TEST_CASE("a limit of CPU time is named, as the cause of SIGXCPU and as a possible one of SIGKILL") {
  CHECK(said(ExitStatus::killed(SIGXCPU), "") == "its limit of CPU time (ulimit -t) ended it");
  Evidence evidence;
  evidence.cpu_limit = 60;
  CHECK_THAT(
      said(ExitStatus::killed(SIGKILL), "", evidence),
      Catch::StartsWith("killed from outside: by kill -9, a scheduler, its limit of CPU time (ulimit -t: 60 "
                        "s), or the kernel when memory ran out"));
}

TEST_CASE("a C++ exception is named without any code of the user's") {
  CHECK(said(ExitStatus::killed(SIGABRT),
             "terminate called after throwing an instance of 'std::runtime_error'\n  what():  boom\n") ==
        "uncaught C++ exception std::runtime_error: boom");
  CHECK(said(ExitStatus::killed(SIGABRT), "terminate called after throwing an instance of 'int'\n") ==
        "uncaught C++ exception int");
  CHECK(said(ExitStatus::killed(SIGABRT), "t: t.cc:3: int main(): Assertion `x == 1' failed.\n") ==
        "aborted: t: t.cc:3: int main(): Assertion `x == 1' failed.");
  CHECK(said(ExitStatus::killed(SIGABRT), "free(): double free detected in tcache 2\n") ==
        "aborted: free(): double free detected in tcache 2");
}

TEST_CASE("under faulthandler an abort is what was said of it, and not what the program got over") {
  const std::string got_over =
      "RuntimeError: CUDA out of memory. Tried to allocate 2 GiB; half a batch now\n";
  const std::string fatal =
      "Fatal Python error: Aborted\n\nCurrent thread 0x00007f (most recent call first):\n"
      "  File \"t.py\", line 3 in f\n";
  const auto aborted = [&](const std::string& why) {
    return said(ExitStatus::killed(SIGABRT), got_over + why + fatal);
  };
  CHECK(aborted("terminate called after throwing an instance of 'E'\n  what():  boom\n") ==
        "uncaught C++ exception E: boom");
  CHECK(aborted("terminate called after throwing an instance of 'E'\n  what():  \n") ==
        "uncaught C++ exception E");
  CHECK(aborted("terminate called after throwing an instance of 'E'\nterminate called recursively\n") ==
        "uncaught C++ exception E");
  CHECK(aborted("double free or corruption (out)\n") == "aborted: double free or corruption (out)");
  CHECK(aborted("") == "aborted: it called abort(), or was sent SIGABRT");
}

TEST_CASE("a full disk is named") {
  Evidence evidence;
  CHECK(said(ExitStatus::exited(1), "OSError: [Errno 28] No space left on device\n", evidence) ==
        "disk full: the worker could not write (No space left on device)");
  evidence.full_disk = "the file system of /data (1 GiB)";
  CHECK(said(ExitStatus::exited(1), "OSError: [Errno 28] No space left on device\n", evidence) ==
        "disk full: the file system of /data (1 GiB) has no free byte");
}

TEST_CASE("other well-known ends are said in words") {
  CHECK(
      said(ExitStatus::exited(1), "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n") ==
      "out of GPU memory: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB");
  CHECK(said(ExitStatus::exited(1), "RuntimeError: Address already in use\n") ==
        "a port it wanted is in use: another job, or one that has not ended yet, holds it");
  CHECK(said(ExitStatus::exited(1), "/usr/bin/python3: No module named trian\n") ==
        "Python finds no module named trian; is the right environment active?");
  CHECK(said(ExitStatus::exited(139), "") == "by a shell's convention, a process in it was ended by SIGSEGV");
  CHECK(said(ExitStatus::exited(3), "") == "nothing");
}

TEST_CASE(
    "an exception that the program survived is mentioned, with how much earlier, and not called the cause") {
  const std::string caught = printed("ValueError: bad sample");
  CHECK(said(ExitStatus::exited(3), caught + "step 1\nstep 2\n") ==
        "the last Python exception it printed, 2 lines before its end, was ValueError: bad sample");
  CHECK(said(ExitStatus::exited(7), caught + "step 1\n") ==
        "the last Python exception it printed, 1 line before its end, was ValueError: bad sample");
  CHECK(said(ExitStatus::exited(1), caught + "no such data set\n") ==
        "the last Python exception it printed, 1 line before its end, was ValueError: bad sample");
  CHECK(said(ExitStatus::exited(3), caught) ==
        "its last words were the Python exception ValueError: bad sample");
  LastWords old = words_of(caught);
  old.traceback_age = std::chrono::minutes(12);
  CHECK(diagnose(ExitStatus::exited(3), old, {}) ==
        "the last Python exception it printed, 12 min before its end, was ValueError: bad sample");
  CHECK(diagnose(ExitStatus::exited(1), old, {}) ==
        "the last Python exception it printed, 12 min before its end, was ValueError: bad sample");
}

TEST_CASE(
    "a kill from outside is told before the exception that came shortly before it, and without an older "
    "one") {
  const std::string caught = printed("ValueError: bad sample");
  const std::string killed = said(ExitStatus::killed(SIGKILL), "");
  CHECK(said(ExitStatus::killed(SIGKILL), caught + "step 1\n") == killed);
  CHECK(said(ExitStatus::killed(SIGKILL), caught) ==
        killed + "; its last words were the Python exception ValueError: bad sample");
}

TEST_CASE("our own signal is nobody else's") {
  LastWords stopped = words_of(
      "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"t.py\", line 1, in f\n"
      "[rank1]: ValueError: nan\n");
  stopped.stopped_with = SIGTERM;
  CHECK(diagnose(ExitStatus::killed(SIGTERM), stopped, {}) == "uncaught Python exception ValueError: nan");
}

TEST_CASE("what stood on stderr before the exception that ended the program is not looked at") {
  CHECK(said(ExitStatus::exited(1),
             "bind: Address already in use; trying the next port\n" + printed("KeyError: 'x'")) ==
        "uncaught Python exception KeyError: 'x'");
  CHECK(said(ExitStatus::exited(3),
             printed("OSError: [Errno 28] No space left on device") + "deleted the old ones\n") ==
        "the last Python exception it printed, 1 line before its end, was OSError: [Errno 28] No space left "
        "on device");
  std::string long_ago = "bind: Address already in use; trying the next port\n";
  for (int i = 0; i < 20; ++i) long_ago += "step\n";
  CHECK(said(ExitStatus::exited(3), long_ago) == "nothing");
}

TEST_CASE("an error file tells of the end where stderr does not") {
  const ErrorFile file{"KeyError: 'x'\nmore", {}, {}};
  const std::string text = printed("ValueError: bad sample") + "step 1\n";
  LastWords words = words_of(text);
  words.error_file = &file;
  CHECK(diagnose(ExitStatus::exited(3), words, {}) == "its error file tells of KeyError: 'x'");
}

TEST_CASE("noise on the way out does not make an exception an earlier one") {
  const std::string noise =
      "Exception ignored in: <function Run.__del__ at 0x7f1c>\nTraceback (most recent call last):\n"
      "  File \"/w/run.py\", line 3, in __del__\nTypeError: 'NoneType' object is not callable\n"
      "/usr/lib/python3.11/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker: There "
      "appear to be "
      "1 leaked semaphore objects\n  warnings.warn('resource_tracker: There appear to be %d '\n"
      "[rank1]:[W1121 20:00:00.123 ProcessGroupNCCL.cpp:1] Warning: destroy_process_group() was not called\n"
      "  0%|          | 0/10 [00:00<?, ?it/s]\nwandb: done\n";
  CHECK(said(ExitStatus::exited(1), printed("ValueError: nan") + noise) ==
        "uncaught Python exception ValueError: nan");
  CHECK(said(ExitStatus::exited(3), printed("ValueError: nan") + noise) ==
        "its last words were the Python exception ValueError: nan");
}

TEST_CASE("what the hooks printed long before the end, and much after it, did not end the program") {
  std::string went_on;
  for (int i = 0; i < 200; ++i) went_on += "step\n";
  const std::string hook =
      "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"t.py\", line 1, in f\n"
      "[rank1]: ValueError: nan\n";
  const auto bearing = [&](const ExitStatus& status, const std::string& text, std::chrono::seconds age,
                           std::optional<int> stopped_with) {
    LastWords words = words_of(text);
    words.traceback_age = age;
    words.stopped_with = stopped_with;
    return last_exception(status, words)->bearing;
  };
  using std::chrono::seconds;
  for (const std::string& printed : {hook, "Exception in thread Thread-1:\n" + printed("ValueError: nan")}) {
    CHECK(bearing(ExitStatus::exited(1), printed, seconds(0), {}) == Bearing::kUncaught);
    CHECK(bearing(ExitStatus::exited(1), printed, seconds(3600), {}) == Bearing::kUncaught);
    CHECK(bearing(ExitStatus::exited(1), printed + went_on, seconds(0), {}) == Bearing::kEarlier);
    CHECK(bearing(ExitStatus::exited(1), printed + went_on, seconds(3600), {}) == Bearing::kEarlier);
    CHECK(bearing(ExitStatus::killed(SIGTERM), printed + went_on, seconds(3600), SIGTERM) ==
          Bearing::kEarlier);
    CHECK(bearing(ExitStatus::killed(SIGKILL), printed + went_on, seconds(3600), {}) == Bearing::kEarlier);
  }
  // Whoever has raised prints for a while on its way out, and may be slow there.
  const std::string noise = went_on.substr(0, 5 * 60);
  CHECK(bearing(ExitStatus::exited(1), hook + noise, seconds(30), {}) == Bearing::kUncaught);
  CHECK(bearing(ExitStatus::exited(1), hook + noise, seconds(3600), {}) == Bearing::kEarlier);
  CHECK(bearing(ExitStatus::exited(1), hook + "step\n", seconds(3600), {}) == Bearing::kUncaught);
}

TEST_CASE("a fault handler tells of the end only where it is the last, and of the signals that it handles") {
  const std::string fault =
      "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007fd830e6eb80 (most recent call "
      "first):\n"
      "  File \"/w/faults.py\", line 189 in f\n\nExtension modules: torch._C (total: 1)\n";
  std::string went_on;
  for (int i = 0; i < 200; ++i) went_on += "step\n";
  const auto bearing = [&](int signal, const std::string& text) {
    return last_exception(ExitStatus::killed(signal), words_of(text))->bearing;
  };
  CHECK(bearing(SIGSEGV, fault) == Bearing::kUncaught);
  CHECK(bearing(SIGSEGV, fault + "wandb: done\nstep\n") == Bearing::kUncaught);
  CHECK(bearing(SIGSEGV, fault + went_on) == Bearing::kEarlier);  // a data loader's
  CHECK(bearing(SIGKILL, fault) == Bearing::kEarlier);
}

TEST_CASE("a progress bar that went on is no noise") {
  std::string bar = printed("ValueError: nan");
  for (int i = 0; i < 100; ++i) bar += "\r 10%|#         | 1/10 [00:00<?, ?it/s]";
  CHECK(said(ExitStatus::exited(3), bar) ==
        "the last Python exception it printed, 93 lines before its end, was ValueError: nan");
}

TEST_CASE(
    "an exception from a data loader's process is named with the place, and a very long one by both ends") {
  CHECK(said(ExitStatus::exited(1),
             "Traceback (most recent call last):\n  File \"/w/t.py\", line 2, in f\n"
             "KeyError: 'Caught KeyError in DataLoader worker process 0.\\nOriginal'\n") ==
        "uncaught Python exception KeyError: 'Caught KeyError in DataLoader worker process 0.\\nOriginal'");
  CHECK(said(ExitStatus::exited(1),
             "Traceback (most recent call last):\n  File \"/w/t.py\", line 2, in f\n"
             "OSError: Caught OSError in DataLoader worker process 0.\nOriginal Traceback (most recent call "
             "last):\n"
             "  File \"/w/t.py\", line 9, in __getitem__\nOSError: image 3 is truncated\n") ==
        "uncaught Python exception OSError: image 3 is truncated, in DataLoader worker process 0 (t.py:9, "
        "__getitem__)");
  const std::string named =
      said(ExitStatus::exited(1), printed("ValueError: bad " + std::string(200'000, 'x') + " end"));
  CHECK(named.size() < 300);
  CHECK(named.ends_with("xxx end"));
}
