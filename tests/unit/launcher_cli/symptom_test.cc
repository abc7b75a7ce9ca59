#include "launcher/report/symptom.h"

#include "launcher/output/traceback_scanner.h"
#include "tests/support/catch.h"

#include <csignal>

using namespace ddprun::launcher;
using ddprun::ExitStatus;

namespace {

struct Said {
  std::string on_stderr;
  std::optional<int> stopped_with{};
  std::optional<ErrorFile> error_file{};
  std::string after{};  // noise on its way out
  std::chrono::seconds age{};
  bool traceback_is_late = false;
  bool error_file_is_late = false;
};

Ending ending(const ExitStatus& status, const Said& said) {
  TracebackScanner scanner;
  scanner.feed(said.on_stderr + said.after);
  const std::string tail = said.on_stderr + said.after;
  return judge_end(status, {.stderr_tail = tail,
                            .traceback = scanner.last(),
                            .traceback_age = said.age,
                            .error_file = said.error_file ? &*said.error_file : nullptr,
                            .stopped_with = said.stopped_with,
                            .traceback_is_late = said.traceback_is_late,
                            .error_file_is_late = said.error_file_is_late});
}

/// As a program prints what it has caught, and Python what nobody has where torch.distributed is not used.
std::string printed_symptom(const std::string& text) {
  return "Traceback (most recent call last):\n  File \"t.py\", line 1, in f\n" + text + "\n";
}

std::string raised(const std::string& text) {
  return "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"t.py\", line 1, in f\n[rank1]: " +
         text + "\n";
}

const std::string kClosed =
    "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer "
    "[127.0.0.1]:27777";

}  // namespace

TEST_CASE("a lost connection that a program got over is no doubt about what it ended of") {
  const std::string broken = "wandb: BrokenPipeError, retrying: ok\n";
  CHECK(ending(ExitStatus::exited(3), {broken}).weight == Weight::kDoubtful);
  CHECK(ending(ExitStatus::exited(3), {broken + "the data set is damaged\n"}).weight == Weight::kCause);
  CHECK(ending(ExitStatus::exited(3), {kClosed + "\nwandb: synced\n"}).weight == Weight::kSymptom);
}

TEST_CASE(
    "a C++ exception that nobody caught is a rank's own error, so that ranks with the same one are named "
    "together") {
  const std::string two =
      "terminate called after throwing an instance of 'A'\n  what():  first\n"
      "terminate called after throwing an instance of 'ns::B'\n  what():  operation 7 differs\nAborted\n";
  CHECK(ending(ExitStatus::killed(SIGABRT), {two}).error == "ns::B: operation 7 differs");
  CHECK(
      ending(ExitStatus::killed(SIGABRT), {"terminate called after throwing an instance of 'int'\n"}).error ==
      "int");
  CHECK(
      ending(ExitStatus::killed(SIGABRT), {"terminate called without an active exception\n"}).error.empty());
  CHECK(ending(ExitStatus::exited(3), {two}).error.empty());  // printed by a child of its, for example
}

TEST_CASE("of what std::terminate has told only what ended the process is its error") {
  const auto error = [](const std::string& text) {
    return ending(ExitStatus::killed(SIGABRT), {text}).error;
  };
  const std::string of_a_child = "terminate called after throwing an instance of 'A'\n  what():  child\n";
  CHECK(error(of_a_child + "terminate called without an active exception\n").empty());
  CHECK(error(of_a_child + "prog: a.cc:1: f(): Assertion `x' failed.\n").empty());
  CHECK(error(of_a_child + "terminate called recursively\n") == "A: child");
  CHECK(error("terminate called after throwing an instance of 'A'\nother\n  what():  not its own\n") == "A");
  CHECK(error("terminate called after throwing an instance of 'torch::jit::ErrorReport'\n  what():  \n"
              "Unknown builtin op: a::b.\n") == "torch::jit::ErrorReport: Unknown builtin op: a::b.");
  CHECK(error("terminate called after throwing an instance of 'A'\n  what():  \nof another thread\n") == "A");
}

TEST_CASE("what C++ threw is its error where faulthandler says that it aborted, which by itself is none") {
  const std::string fatal =
      "Fatal Python error: Aborted\n\nCurrent thread 0x00007f (most recent call first):\n  File \"t.py\", "
      "line 3 in f\n";
  const auto thrown = [&](const std::string& type) {
    return "terminate called after throwing an instance of '" + type + "'\n  what():  boom\n" + fatal;
  };
  CHECK(ending(ExitStatus::killed(SIGABRT), {thrown("E0")}).error == "E0: boom");
  CHECK(ending(ExitStatus::killed(SIGABRT), {thrown("E1")}).error == "E1: boom");
  CHECK(ending(ExitStatus::killed(SIGABRT), {fatal}).error.empty());
  CHECK(ending(ExitStatus::killed(SIGABRT), {fatal, {}, ErrorFile{"ValueError: nan", {}, {}}}).error ==
        "ValueError: nan");
}

TEST_CASE("a symptom that C++ threw is one, however long the stack behind it") {
  std::string text =
      "terminate called after throwing an instance of 'c10::DistStoreError'\n"
      "  what():  wait timeout after 1000ms, keys: /x\n";
  for (int frame = 0; frame < 40; ++frame) text += "frame #" + std::to_string(frame) + ": f\n";
  const Ending timed_out = ending(ExitStatus::killed(SIGABRT), {text});
  CHECK(timed_out.weight == Weight::kSymptom);
  CHECK(timed_out.error == "c10::DistStoreError: wait timeout after 1000ms, keys: /x");
}

TEST_CASE("a symptom is quoted in whole words") {
  const auto symptom = [](const std::string& what) {
    return ending(ExitStatus::killed(SIGABRT),
                  {"terminate called after throwing an instance of 'E'\n  what():  " + what + "\n"})
        .symptom;
  };
  CHECK(symptom("rank 1 failed first: no file; this rank") == "lost a peer (rank 1 failed first: no file)");
  CHECK(symptom("receive of float32[8] from any rank: all other ranks have ended") ==
        "lost a peer (all other ranks have ended)");
  std::string many = "barrier (operation 11): ";
  for (int rank = 1; rank < 9; ++rank)
    many += "rank " + std::to_string(rank) + " (pid 223580" + std::to_string(rank) + "), ";
  CHECK(symptom(many + "rank 9 (pid 22359) has left the group while rank 0 waited for it") ==
        "lost a peer (… 2235804), rank 5 (pid 2235805), rank 6 (pid 2235806), rank 7 (pid 2235807), "
        "rank 8 (pid 2235808), rank 9 (pid 22359) has left the group while rank 0 waited for it)");
}

TEST_CASE("std::terminate without an exception may have ended the cleaning up after a lost peer") {
  const std::string silent = "terminate called without an active exception\n";
  CHECK(ending(ExitStatus::killed(SIGABRT), {silent}).weight == Weight::kDoubtful);
  const ErrorFile unwinding{
      "std::terminate was called during the unwinding of an exception, maybe because …", {}, {}};
  CHECK(ending(ExitStatus::exited(134), {"", {}, unwinding}).weight == Weight::kDoubtful);
  const ErrorFile called{"std::terminate was called", {}, {}};
  CHECK(ending(ExitStatus::exited(134), {"", {}, called}).weight == Weight::kCause);
  CHECK(ending(ExitStatus::killed(SIGABRT), {raised("ValueError: loss is nan"), {}, {}, silent}).weight ==
        Weight::kCause);
}

TEST_CASE("what a rank says when another one is gone is a symptom") {
  for (const std::string& text :
       {kClosed,
        std::string("RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:538] Read error "
                    "[127.0.0.1]:12714: Connection reset by peer"),
        std::string(
            "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out "
            "waiting 20000ms for recv operation to complete"),
        std::string(
            "torch.distributed.DistStoreError: wait timeout after 1000ms, keys: /default_pg/0//x/never"),
        std::string(
            "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. "
            "Did the remote server shutdown or crash?"),
        std::string(
            "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:94, remote process exited or "
            "there was a network error, NCCL version 2.27.5")}) {
    INFO(text);
    CHECK(ending(ExitStatus::exited(1), {raised(text)}).weight == Weight::kSymptom);
    CHECK(ending(ExitStatus::killed(SIGABRT),
                 {raised(text), {}, {}, "terminate called without an active exception\n"})
              .weight == Weight::kSymptom);
  }
}

TEST_CASE("what a C++ program prints of ddprun's own library when another rank is gone is a symptom") {
  for (const char* const text :
       {"all_reduce (sum) of float32[8] (operation 11): rank 2 (pid 22358) died while rank 3 waited for it; "
        "look for its last output",
        "barrier (operation 11): the group has ended: barrier (operation 11): rank 2 (pid 22358) has left "
        "the "
        "group while rank 3 waited for it; all ranks must call the same collectives before they end",
        "receive of float32[8] from any rank: all other ranks have ended",
        "barrier (operation 11): timed out after 5.0 s on rank 1: rank 2 of 3 did not come; are they slower "
        "than the timeout, or in another collective?",
        "rank 2 failed first: there is no file data.bin"}) {
    INFO(text);
    CHECK(ending(ExitStatus::exited(1), {"error: " + std::string(text) + "\n"}).weight == Weight::kSymptom);
    CHECK(ending(ExitStatus::exited(1), {{}, {}, ErrorFile{text, {}, {}}}).weight == Weight::kSymptom);
  }
  CHECK(ending(ExitStatus::exited(1), {"error: operation 5 differs between ranks: rank 0 called barrier\n"})
            .weight == Weight::kCause);
}

TEST_CASE("who lost a connection has lost a peer only where torch.distributed says so") {
  for (const std::string& text :
       {std::string("ConnectionResetError: [Errno 104] Connection reset by peer"),
        std::string("ConnectionRefusedError: [Errno 111] Connection refused"),
        std::string("BrokenPipeError: [Errno 32] Broken pipe"),
        std::string("requests.exceptions.ConnectionError: ('Connection aborted.', ConnectionResetError(104, "
                    "'Connection reset by peer'))"),
        std::string(
            "botocore.exceptions.ConnectTimeoutError: Connect timeout on endpoint URL: \"https://x\""),
        std::string("TimeoutError: Timed out waiting for the licence server")}) {
    INFO(text);
    CHECK(ending(ExitStatus::exited(1), {raised(text)}).weight == Weight::kDoubtful);
  }
  for (const std::string& text :
       {std::string("torch.distributed.DistNetworkError: Connection reset by peer"),
        std::string("RuntimeError: Connection reset by peer. This may indicate a possible application crash "
                    "on rank 0 or a network set up issue."),
        std::string("RuntimeError: Socket Timeout"),
        std::string("RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:446] writev "
                    "[127.0.0.1]:9421: Broken pipe"),
        std::string("torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:94, unhandled system "
                    "error, NCCL version 2.27.5\n[rank1]: Last error:\n[rank1]: Call to recv from "
                    "10.0.0.1<4444> failed : Connection reset by peer")}) {
    INFO(text);
    CHECK(ending(ExitStatus::exited(1), {raised(text)}).weight == Weight::kSymptom);
  }
}

TEST_CASE("a symptom is known without a traceback, by an error file, and through std::terminate") {
  CHECK(
      ending(ExitStatus::exited(1), {"ERROR:root:rank 0 gives up: Connection closed by peer [127.0.0.1]:1\n"})
          .symptom == "lost a peer (Connection closed by peer)");
  CHECK(ending(ExitStatus::exited(1), {"", {}, ErrorFile{kClosed, {}, {}}}).weight == Weight::kSymptom);
}

TEST_CASE("data of another size are the doing of whoever gets them, unless another rank has raised") {
  const Ending mismatch = ending(
      ExitStatus::killed(SIGABRT),
      {"terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  [enforce fail at "
       "pair.cc:456] op.preamble.length <= op.nbytes. 699052 vs 684. Received data size doesn't match "
       "expected "
       "size. Is there a distributed collective mismatch in your code?\n"});
  CHECK(mismatch.weight == Weight::kDoubtful);
  CHECK(mismatch.symptom ==
        "got data of another size than it waited for (Is there a distributed collective mismatch in your "
        "code?)");
}

TEST_CASE("exit code 75 is a lost peer's only where our own worker says so") {
  for (const std::string& text : {std::string("ddprun-worker: all_reduce: rank 1 (pid 4711) has ended\n"),
                                  std::string("ddprun: uncaught ddprun::Exception: timed out\n")}) {
    CHECK(ending(ExitStatus::exited(75), {text}).weight == Weight::kSymptom);
  }
  const Ending of_anybody = ending(ExitStatus::exited(75), {"quota service says: try again later\n"});
  CHECK(of_anybody.weight == Weight::kDoubtful);
  CHECK(of_anybody.symptom == "asked to be tried again (exit code 75)");
}

TEST_CASE("what torch only warned of explains no end") {
  const std::string reset = "ERROR data server: [Errno 104] Connection reset by peer\n";
  for (const std::string& warning :
       {std::string(
            "[W1122 06:29:46.948235015 socket.cpp:207] [c10d] The hostname of the client socket cannot "
            "be retrieved. err=-3\n"),
        std::string(
            "[rank1]:[W1122 06:29:46.948235015 socket.cpp:697] [c10d] The client socket has failed to "
            "connect to [::]:29500\n"),
        std::string("[rank1]:W1122 00:36:44.057000 26532 c10d_logger.py:83] c10d is slow\n")}) {
    CHECK(ending(ExitStatus::exited(3), {warning + reset}).weight == Weight::kDoubtful);
    CHECK(ending(ExitStatus::exited(3), {warning}).weight == Weight::kCause);
  }
  CHECK(ending(ExitStatus::exited(3), {"[E1122 06:29:46.948235015 ProcessGroupNCCL.cpp:629] Watchdog caught "
                                       "collective operation timeout\n"})
            .weight == Weight::kSymptom);
}

TEST_CASE("whatever a program does by itself is a cause") {
  CHECK(ending(ExitStatus::exited(1), {raised("ValueError: loss is nan")}).weight == Weight::kCause);
  CHECK(ending(ExitStatus::exited(1), {raised("ValueError: loss is nan")}).error ==
        "ValueError: loss is nan");
  CHECK(ending(ExitStatus::exited(3), {""}).weight == Weight::kCause);
  CHECK(ending(ExitStatus::killed(SIGSEGV), {""}).weight == Weight::kCause);
  CHECK(ending(ExitStatus::killed(SIGKILL), {raised(kClosed)}).weight == Weight::kCause);
}

TEST_CASE("what a chain began with decides, either way round") {
  const std::string chain =
      "\n[rank1]: The above exception was the direct cause of the following exception:\n\n";
  CHECK(ending(ExitStatus::exited(1), {raised(kClosed) + chain + raised("SystemError: the step failed")})
            .weight == Weight::kSymptom);
  CHECK(ending(ExitStatus::exited(1), {raised("ValueError: nan") + chain + raised(kClosed)}).weight ==
        Weight::kCause);
}

TEST_CASE("a symptom is quoted with its sentence from the beginning") {
  const std::string text =
      "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting "
      "20000ms "
      "for recv operation to complete";
  CHECK(ending(ExitStatus::exited(1), {raised(text)}).symptom ==
        "waited in vain for a peer (Timed out waiting 20000ms for recv operation to complete)");
}

TEST_CASE("a symptom in the middle of its sentence is quoted with all of it") {
  const Ending left = ending(ExitStatus::exited(1),
                             {"error: barrier (operation 11): rank 2 (pid 7) has left the group while rank 3 "
                              "waited for it; all ranks must call the same collectives before they end\n"});
  CHECK(left.symptom == "lost a peer (rank 2 (pid 7) has left the group while rank 3 waited for it)");
  CHECK(ending(ExitStatus::exited(1), {"error: rank 2 failed first: no file data.bin\n"}).symptom ==
        "lost a peer (rank 2 failed first: no file data.bin)");
}

TEST_CASE("a connection to a data loader process that was lost is no peer's") {
  const std::string chain = raised("ConnectionResetError: [Errno 104] Connection reset by peer") +
                            "\nThe above exception was the direct cause of the following exception:\n\n" +
                            raised("RuntimeError: DataLoader worker (pid(s) 9237) exited unexpectedly");
  CHECK(ending(ExitStatus::exited(1), {chain}).symptom == "lost a data loader process");
}

TEST_CASE("an old symptom that was overcome explains nothing") {
  const std::string log = "urllib3: Connection reset by peer; trying again\n";
  CHECK(ending(ExitStatus::exited(1), {log + raised("ValueError: nan")}).weight == Weight::kCause);
}

TEST_CASE("an end that may be somebody else's doing weighs less than a cause and more than a symptom") {
  const Ending loader =
      ending(ExitStatus::exited(1), {raised("RuntimeError: DataLoader worker (pid 9237) is killed by "
                                            "signal: Killed. ")});
  CHECK(loader.weight == Weight::kDoubtful);
  CHECK(loader.symptom == "lost a data loader process");
  CHECK(ending(ExitStatus::killed(SIGTERM), {""}).weight == Weight::kDoubtful);
  CHECK(ending(ExitStatus::killed(SIGPIPE), {""}).weight == Weight::kDoubtful);
}

TEST_CASE("who had raised before our signal came failed by itself, who ended of it did not") {
  CHECK_FALSE(ending(ExitStatus::killed(SIGTERM), {"step 3\n", SIGTERM}).is_own_failure);
  CHECK(ending(ExitStatus::killed(SIGTERM), {raised("ValueError: nan"), SIGTERM}).is_own_failure);
  CHECK(ending(ExitStatus::exited(1), {raised("ValueError: nan"), SIGTERM}).is_own_failure);
  CHECK(ending(ExitStatus::killed(SIGTERM), {"", SIGTERM, ErrorFile{"ValueError: nan", {}, {}}})
            .is_own_failure);
  // A handler of our signal may end in any other one.
  CHECK_FALSE(ending(ExitStatus::killed(SIGABRT), {"", SIGTERM}).is_own_failure);
  CHECK_FALSE(ending(ExitStatus::exited(1), {raised("lightning.SIGTERMException"), SIGTERM}).is_own_failure);
  CHECK(ending(ExitStatus::exited(1), {raised("lightning.SIGTERMException"), SIGTERM}).is_of_signal);
  CHECK(ending(ExitStatus::killed(SIGINT), {printed_symptom("KeyboardInterrupt"), SIGINT}).is_of_signal);
  CHECK_FALSE(ending(ExitStatus::exited(1), {raised("OSError: no space"), SIGTERM}).is_of_signal);
  CHECK_FALSE(ending(ExitStatus::exited(1), {raised("OSError: no space to save in after SIGTERM"), SIGTERM})
                  .is_of_signal);
  CHECK_FALSE(ending(ExitStatus::exited(143), {"", SIGTERM}).is_own_failure);
  CHECK(ending(ExitStatus::exited(1), {raised(kClosed), SIGTERM}).weight == Weight::kSymptom);
}

TEST_CASE("who raised when our signal had come did so because of it") {
  const Said handler{.on_stderr = raised("FileNotFoundError: '/nonexistent/ckpt.pt'"),
                     .stopped_with = SIGTERM,
                     .traceback_is_late = true};
  CHECK_FALSE(ending(ExitStatus::exited(1), handler).is_own_failure);
  CHECK(ending(ExitStatus::exited(1), handler).error == "FileNotFoundError: '/nonexistent/ckpt.pt'");
  CHECK_FALSE(ending(ExitStatus::exited(1), {.on_stderr = "",
                                             .stopped_with = SIGTERM,
                                             .error_file = ErrorFile{"Preempted: got signal 15", {}, {}},
                                             .error_file_is_late = true})
                  .is_own_failure);
}

TEST_CASE("who said why before our signal had failed of that, whatever it said afterwards") {
  const Ending recorded = ending(ExitStatus::exited(1), {.on_stderr = raised("Preempted: got signal 15"),
                                                         .stopped_with = SIGTERM,
                                                         .error_file = ErrorFile{"ValueError: nan", {}, {}},
                                                         .traceback_is_late = true});
  CHECK(recorded.is_own_failure);
  CHECK(recorded.error == "ValueError: nan");
  const Ending printed = ending(ExitStatus::exited(1), {.on_stderr = raised("ValueError: nan"),
                                                        .stopped_with = SIGTERM,
                                                        .error_file = ErrorFile{"Preempted", {}, {}},
                                                        .error_file_is_late = true});
  CHECK(printed.is_own_failure);
  CHECK(printed.error == "ValueError: nan");
}

TEST_CASE("who went on after an exception that it printed did not fail of it") {
  const std::string goes_on = printed_symptom("ValueError: bad sample") + "step 1\nstep 2\n";
  CHECK_FALSE(ending(ExitStatus::killed(SIGTERM), {goes_on, SIGTERM}).is_own_failure);
  CHECK_FALSE(ending(ExitStatus::exited(1), {goes_on, SIGTERM}).is_own_failure);
  CHECK_FALSE(ending(ExitStatus::killed(SIGTERM),
                     {printed_symptom("ValueError: bad sample"), SIGTERM, {}, {}, std::chrono::seconds(3600)})
                  .is_own_failure);
  CHECK(ending(ExitStatus::killed(SIGKILL), {goes_on}).error.empty());
  CHECK(ending(ExitStatus::exited(3), {goes_on}).error.empty());
  CHECK(ending(ExitStatus::exited(3), {goes_on}).weight == Weight::kCause);
}

TEST_CASE("who printed an exception and cleaned up when our signal came had failed before") {
  CHECK(ending(ExitStatus::killed(SIGTERM), {printed_symptom("ValueError: nan"), SIGTERM}).is_own_failure);
  CHECK(ending(ExitStatus::killed(SIGTERM),
               {printed_symptom("ValueError: nan") +
                    "wandb: run summary\n[W1121 20:00:00.1 x.cpp:1] not destroyed\n",
                SIGTERM})
            .is_own_failure);
  CHECK(
      ending(
          ExitStatus::killed(SIGTERM),
          {raised("ValueError: nan") + "saving the last logs\n", SIGTERM, {}, {}, std::chrono::seconds(300)})
          .is_own_failure);
}

TEST_CASE("an error file says more than an exception that the program had printed itself") {
  const Ending recorded =
      ending(ExitStatus::exited(3),
             {printed_symptom("ValueError: bad sample"), {}, ErrorFile{"KeyError: 'x'", {}, {}}});
  CHECK(recorded.error == "KeyError: 'x'");
}
