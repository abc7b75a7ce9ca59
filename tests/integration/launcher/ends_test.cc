#include "tests/support/catch.h"
#include "tests/support/launched.h"

#include <chrono>
#include <csignal>

// How jobs end: whose exit code, who is stopped, how fast.

using namespace ddprun::testing;
using Catch::Matchers::Contains;

namespace {

std::vector<std::string> shell(int workers, const std::string& script, std::vector<std::string> flags = {}) {
  std::vector<std::string> arguments{"--nproc-per-node", std::to_string(workers)};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  for (const std::string& word :
       {std::string("--no-python"), std::string("/bin/sh"), std::string("-c"), script}) {
    arguments.push_back(word);
  }
  return ddprun_command(arguments);
}

// Rank 0 has a child in a session of its own, which waits for nobody; that one's child stayed in the worker's
// group. When all are there rank 1 fails.
std::vector<std::string> heedless_parent(const std::string& grandchild,
                                         const std::vector<std::string>& flags) {
  const std::string script = R"(
import os, signal, sys, time
if os.environ['TORCHELASTIC_RESTART_COUNT'] != '0': sys.exit(0)
if os.environ['RANK'] == '1':
    open(sys.argv[1]).read(1)
    sys.exit(9)
if os.fork() == 0:
    if os.fork() == 0:
        )" + grandchild + R"(
        open(sys.argv[1], 'w').write('x')
        time.sleep(1000)
    os.setsid()
    time.sleep(1000)
time.sleep(1000)
)";
  std::vector<std::string> arguments{"--nproc-per-node", "2", "--max-restarts", "1"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  arguments.insert(arguments.end(), {"--no-python", "python3", "-c", script});
  return ddprun_command(arguments);
}

}  // namespace

TEST_CASE("a job whose workers all exit with 0 exits with 0") {
  Launched job(shell(3, "exit 0"));
  CHECK(job.wait() == 0);
}

TEST_CASE("the exit code is the guilty worker's own, and the others are stopped") {
  Launched job(shell(4, "if [ $RANK = 2 ]; then exit 37; fi; sleep 100"));
  CHECK(job.wait() == 37);
  CHECK_THAT(job.err(), Contains("exited with code 37"));
}

TEST_CASE("the exit code of a killed worker is 128 plus the signal") {
  Launched job(shell(2, "if [ $RANK = 1 ]; then kill -SEGV $$$$; fi; sleep 100"));
  CHECK(job.wait() == 128 + SIGSEGV);
}

TEST_CASE("a worker that is done early does not end the others") {
  Launched job(shell(2, "if [ $RANK = 1 ]; then exit 0; fi; read line < /dev/null; echo still here"));
  CHECK(job.wait() == 0);
  CHECK_THAT(job.out(), Contains("still here"));
}

TEST_CASE("a program that is not there ends with 127 and names it") {
  Launched job(ddprun_command({"--no-python", "./no-such-program"}));
  CHECK(job.wait() == 127);
  CHECK_THAT(job.err(), Contains("no-such-program"));
}

TEST_CASE("a script whose interpreter is missing ends with 126 and names the interpreter") {
  const TempDirectory directory;
  const std::string script = directory.path() + "/train";
  REQUIRE(std::system(("printf '#!/no/such/python\\n' > " + script + " && chmod +x " + script).c_str()) == 0);
  Launched job(ddprun_command({"--no-python", script}));
  CHECK(job.wait() == 126);
  CHECK_THAT(job.err(), Contains("/no/such/python"));
}

TEST_CASE("SIGTERM to the launcher reaches the workers and gives 143") {
  Launched job(shell(2, "trap 'echo stopping; exit 0' TERM; echo up; while :; do sleep 0.01; done"));
  job.read_line();
  job.read_line();
  job.signal(SIGTERM);
  CHECK(job.wait() == 128 + SIGTERM);
  CHECK(job.out() == "stopping\nstopping\n");
}

TEST_CASE("SIGINT is passed on as SIGINT and gives 130") {
  Launched job(shell(1, "trap 'echo interrupted; exit 0' INT; echo up; while :; do sleep 0.01; done"));
  job.read_line();
  job.signal(SIGINT);
  CHECK(job.wait() == 128 + SIGINT);
  CHECK(job.out() == "interrupted\n");
}

TEST_CASE("a second SIGINT kills workers that ignore the first") {
  Launched job(shell(2, "trap '' INT TERM; echo up; while :; do sleep 0.01; done"));
  job.read_line();
  job.read_line();
  job.signal(SIGINT);
  job.wait_for_err("sending SIGINT");
  job.signal(SIGINT);
  CHECK(job.wait() == 128 + SIGINT);
  CHECK_THAT(job.err(), Contains("a second time; sending SIGKILL to ranks 0 1"));
}

TEST_CASE("workers that ignore SIGTERM are killed when the grace period is over") {
  const Gate gate;
  Launched job(shell(2,
                     "if [ $RANK = 1 ]; then read x < " + gate.path() +
                         "; exit 3; fi; trap '' TERM; echo > " + gate.path() +
                         "; while :; do sleep 0.01; done",
                     {"--shutdown-timeout", "1"}));
  CHECK(job.wait() == 3);
  CHECK_THAT(job.err(), Contains("1.0 s of grace are over; sending SIGKILL to rank 0"));
}

TEST_CASE("a stopped worker is woken so that it can end") {
  const Gate gate;
  Launched job(shell(2, "[ $RANK = 0 ] && echo $$$$ && kill -STOP $$$$; read x < " + gate.path() + "; exit 4",
                     {"--shutdown-timeout", "20"}));
  const std::string stat = "/proc/" + job.read_line() + "/stat";
  REQUIRE(eventually(std::chrono::seconds(5), [&] { return Contains(") T ").match(read_file(stat)); }));
  gate.open();
  CHECK(job.wait(std::chrono::seconds(10)) == 4);
}

TEST_CASE("the whole OS process group is stopped, not only the worker") {
  const std::string token = "token-" + std::to_string(::getpid()) + "-group";
  Launched job(shell(2, "sh -c 'sleep 1000' " + token + " & if [ $RANK = 1 ]; then exit 5; fi; wait"));
  CHECK(job.wait() == 5);
  CHECK(processes_with(token).empty());
}

TEST_CASE("who ended in a worker's group and is reaped by nobody does not make the worker a stuck one") {
  const Gate gate;
  std::vector<std::string> command =
      heedless_parent("signal.signal(signal.SIGTERM, signal.SIG_IGN)", {"--shutdown-timeout", "1"});
  command.push_back(gate.path());
  Launched job(command);
  CHECK(job.wait() == 0);
  CHECK_THAT(job.err(), Contains("sending SIGKILL to rank 0") && Contains("restart 1 of 1") &&
                            !Contains("did not end within"));
}

TEST_CASE("who is left in a worker's group is asked to end, whoever its parent is") {
  const Gate gate;
  std::vector<std::string> command =
      heedless_parent("signal.signal(signal.SIGTERM, lambda *_: (print('saved', flush=True), os._exit(0)))",
                      {"--shutdown-timeout", "100"});
  command.push_back(gate.path());
  Launched job(command);
  CHECK(job.wait() == 0);
  CHECK_THAT(job.out(), Contains("saved"));
  CHECK_THAT(job.err(), Contains("restart 1 of 1") && !Contains("SIGKILL"));
}

TEST_CASE("an exit code that means do not restart is a cause, whatever was said before") {
  Launched job(ddprun_command({"--nproc-per-node", "2", "--max-restarts", "1", "--no-python", "sh", "-c",
                               "[ $RANK = 1 ] || exec sleep 100; echo 'BrokenPipeError' >&2; exit 93"}));
  CHECK(job.wait() == 93);
  CHECK_THAT(job.err(), Contains("restarts  0 of 1 used") && !Contains("waiting up to"));
}

TEST_CASE("nohup keeps its meaning: SIGHUP does not end the job") {
  LaunchOptions options;
  options.ignores_hangup = true;
  // SIGUSR1, which is passed on, is heard after SIGHUP would have been.
  Launched job(
      shell(1,
            "trap 'echo done; exit 0' USR1; kill -HUP $PPID; kill -USR1 $PPID; while :; do sleep 0.01; done"),
      options);
  CHECK(job.wait() == 0);
  CHECK(job.out() == "done\n");
}

TEST_CASE("SIGUSR1 is passed on to the workers: a scheduler's warning reaches the checkpoint code") {
  Launched job(shell(2, "trap 'echo saving; exit 0' USR1; echo up; while :; do sleep 0.01; done"));
  job.read_line();
  job.read_line();
  job.signal(SIGUSR1);
  CHECK(job.wait() == 0);
  CHECK(job.out() == "saving\nsaving\n");
}

TEST_CASE("a job that takes longer than --job-timeout ends with 75") {
  Launched job(shell(2, "sleep 100", {"--job-timeout", "0.3"}));
  CHECK(job.wait() == 75);
  CHECK_THAT(job.err(), Contains("the job is not done after 300 ms (--job-timeout)"));
}

TEST_CASE("a failed generation is started again, with its count and its own log directory") {
  const TempDirectory logs;
  Launched job(
      shell(2,
            "echo attempt $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS; "
            "[ $TORCHELASTIC_RESTART_COUNT = 2 ] || { [ $RANK = 0 ] && exit 9; sleep 100; }",
            {"--max-restarts", "5", "--log-dir", logs.path(), "--redirects", "3", "--rdzv-id", "job"}));
  CHECK(job.wait() == 0);
  CHECK_THAT(job.err(), Contains("restart 1 of 5") && Contains("restart 2 of 5"));
  const std::string cat = "cat " + logs.path() + "/job_*/attempt_";
  for (const std::string attempt : {"0", "1", "2"}) {
    Launched shown({"/bin/sh", "-c", cat + attempt + "/0/stdout.log"});
    CHECK(shown.wait() == 0);
    CHECK(shown.out() == "attempt " + attempt + " of 5\n");
  }
}

TEST_CASE("workers that are started again are told what failed before, in one line") {
  Launched job(shell(1,
                     "echo \"told: ${DDPRUN_RESTART_CAUSE-nothing}\"; case $TORCHELASTIC_RESTART_COUNT in "
                     "0) exit 9;; 1) kill -KILL $$$$;; esac",
                     {"--max-restarts", "2"}));
  CHECK(job.wait() == 0);
  CHECK_THAT(job.out(), Catch::Matchers::Matches(
                            "told: nothing\n"
                            "told: rank 0 \\(pid [0-9]+\\) exited with code 9 after [0-9.]+ m?s\n"
                            "told: rank 0 \\(pid [0-9]+\\) was killed by SIGKILL after [0-9.]+ m?s.*\n"));
}

TEST_CASE("a spent restart budget ends with the last guilty worker's code") {
  Launched job(shell(1, "exit $((10 + TORCHELASTIC_RESTART_COUNT))", {"--max-restarts", "1"}));
  CHECK(job.wait() == 11);
  CHECK_THAT(job.err(), Contains("restarts  1 of 1 used"));
}

TEST_CASE("a crash loop waits before its second restart, and says for how long") {
  const TempDirectory folder;
  const std::string events = folder.path() + "/events.jsonl";
  Launched job(shell(1, "exit 9", {"--max-restarts", "2", "--events", events}));
  CHECK(job.wait() == 9);
  CHECK_THAT(job.err(), Contains("starting all workers again: restart 1 of 2\n") &&
                            Contains("starting all workers again in 500 ms: restart 2 of 2\n"));
  CHECK_THAT(read_file(events), Contains("\"delay_ns\":0}") && Contains("\"delay_ns\":500000000}"));
}

TEST_CASE("exit codes 78 and 93 say that a restart will not help") {
  for (const int code : {78, 93}) {
    Launched job(shell(1, "exit " + std::to_string(code), {"--max-restarts", "5"}));
    CHECK(job.wait() == code);
    CHECK_THAT(job.err(), !Contains("starting all workers again"));
  }
}

TEST_CASE("what workers leave behind is ended, with a word about it") {
  const std::string token = "token-" + std::to_string(::getpid()) + "-daemon";
  const Gate gate;
  Launched job(shell(1, "setsid sh -c 'echo > " + gate.path() + "; exec sleep 1000' " + token +
                            " > /dev/null & read x < " + gate.path() + "; exit 0"));
  CHECK(job.wait() == 0);
  CHECK_THAT(job.err(), Contains("ended 1 process that the workers left behind"));
  CHECK(processes_with(token).empty());
}

TEST_CASE("nothing is left of a temporary log directory that nobody wrote to") {
  const TempDirectory directory;
  LaunchOptions options;
  options.environment["TMPDIR"] = directory.path();
  Launched job(shell(2, "exit 0"), options);
  CHECK(job.wait() == 0);
  CHECK(::rmdir(directory.path().c_str()) == 0);
}
