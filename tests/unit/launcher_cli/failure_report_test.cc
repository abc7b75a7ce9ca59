#include "launcher/report/failure_report.h"

#include "tests/support/catch.h"

#include <nlohmann/json.hpp>

#include <csignal>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

using std::chrono::milliseconds;

WorkerOutcome worker(int rank, EndKind end_kind, ExitStatus status, int ended_ms = 1200) {
  WorkerOutcome outcome;
  outcome.rank = Rank(rank);
  outcome.local_rank = LocalRank(rank);
  outcome.pid = 100 + rank;
  outcome.end_kind = end_kind;
  outcome.status = status;
  outcome.ended_at = TimePoint(milliseconds(ended_ms));
  return outcome;
}

WorkerOutcome stopped(int rank, int with = SIGTERM) {
  WorkerOutcome outcome = worker(rank, EndKind::kConsequence, ExitStatus::killed(with));
  outcome.stopped_with = with;
  return outcome;
}

JobOutcome job(std::vector<WorkerOutcome> workers, StopReason reason = StopReason::kWorkerFailed) {
  GenerationOutcome generation;
  generation.reason = reason;
  generation.workers = std::move(workers);
  for (std::size_t i = 0; i < generation.workers.size(); ++i) {
    if (generation.workers[i].end_kind == EndKind::kRootCause) generation.root_cause = i;
  }
  JobOutcome outcome;
  outcome.exit_code = 1;
  outcome.reason = reason;
  outcome.generations.push_back(std::move(generation));
  return outcome;
}

std::optional<RootCause> root_of(const JobOutcome& outcome, std::optional<std::string> diagnosis = {},
                                 std::optional<ErrorFile> file = {}) {
  const GenerationOutcome& last = outcome.generations.back();
  return RootCause{last.workers[*last.root_cause], std::move(diagnosis), std::move(file)};
}

ReportContext context() {
  return {.title = "train.py",
          .hostname = "node-a",
          .run_id = "none",
          .log_root = {},
          .report_file = {},
          .max_restarts = 0};
}

}  // namespace

TEST_CASE("the report names the root cause first and folds what followed") {
  JobOutcome outcome =
      job({stopped(0), stopped(1), worker(2, EndKind::kRootCause, ExitStatus::killed(SIGSEGV)), stopped(3)});
  outcome.generations[0].workers[2].stderr_tail = "epoch 1\nstep 2\n";
  ReportContext where = context();
  where.log_root = "/logs/none_x";
  where.report_file = "/logs/none_x/report.json";
  CHECK(render_report(outcome, root_of(outcome, "segmentation fault: it touched memory that is not its own"),
                      where) ==
        "ddprun: train.py failed: rank 2 (local rank 2, pid 102, host node-a) was killed by SIGSEGV after "
        "1.2 s\n"
        "  segmentation fault: it touched memory that is not its own\n"
        "\n"
        "  the last 2 lines of its stderr:\n"
        "    | epoch 1\n"
        "    | step 2\n"
        "\n"
        "  then      ranks 0-1, 3 ended by SIGTERM, because rank 2 failed\n"
        "  logs      /logs/none_x\n"
        "  report    /logs/none_x/report.json\n");
}

TEST_CASE("the error file adds message and stack, unless stderr has just shown them") {
  JobOutcome outcome = job({worker(0, EndKind::kRootCause, ExitStatus::exited(3))});
  outcome.generations[0].workers[0].error_file = "/l/error.json";
  const ErrorFile file{"RuntimeError: boom", "Traceback\n  File \"t.py\", line 1", "17"};
  CHECK(
      render_report(outcome, root_of(outcome, {}, file), context()) ==
      "ddprun: train.py failed: rank 0 (local rank 0, pid 100, host node-a) exited with code 3 after 1.2 s\n"
      "\n"
      "  it wrote nothing to stderr\n"
      "\n"
      "  its error file (/l/error.json) says:\n"
      "    RuntimeError: boom\n"
      "    | Traceback\n"
      "    |   File \"t.py\", line 1\n");
  CHECK(
      render_report(outcome, root_of(outcome, {}, ErrorFile{"bad batch", "bad batch", "17"}), context()) ==
      "ddprun: train.py failed: rank 0 (local rank 0, pid 100, host node-a) exited with code 3 after 1.2 s\n"
      "\n"
      "  it wrote nothing to stderr\n"
      "\n"
      "  its error file (/l/error.json) says:\n"
      "    bad batch\n");
  outcome.generations[0].workers[0].stderr_tail = "Traceback …\nRuntimeError: boom\n";
  CHECK(
      render_report(outcome, root_of(outcome, {}, file), context()) ==
      "ddprun: train.py failed: rank 0 (local rank 0, pid 100, host node-a) exited with code 3 after 1.2 s\n"
      "\n"
      "  the last 2 lines of its stderr:\n"
      "    | Traceback …\n"
      "    | RuntimeError: boom\n"
      "\n"
      "  its error file (/l/error.json) says:\n"
      "    RuntimeError: boom\n");
}

TEST_CASE("every way a worker can follow the root cause is told apart") {
  WorkerOutcome graceful = worker(1, EndKind::kConsequence, ExitStatus::exited(0));
  graceful.stopped_with = SIGTERM;
  WorkerOutcome own_code = worker(2, EndKind::kConsequence, ExitStatus::exited(1));
  own_code.stopped_with = SIGTERM;
  WorkerOutcome stuck = worker(5, EndKind::kNotEnded, ExitStatus::exited(0));
  stuck.status.reset();
  stuck.stuck_in = "D (disk sleep), in nfs_wait";
  WorkerOutcome unborn;
  unborn.rank = Rank(7);
  JobOutcome outcome =
      job({worker(0, EndKind::kRootCause, ExitStatus::exited(9)), graceful, own_code, stopped(3, SIGKILL),
           worker(4, EndKind::kConsequence, ExitStatus::killed(SIGABRT)), stuck,
           worker(6, EndKind::kSucceeded, ExitStatus::exited(0)), unborn});
  outcome.generations[0].leftovers = {"pid 9 (sleep)"};
  outcome.generations[0].survivors = {"pid 10 (dd), in state D (disk sleep)"};
  CHECK(consequences(outcome.generations[0]) ==
        std::vector<std::string>{
            "rank 1 ended in order after SIGTERM, because rank 0 failed",
            "rank 2 exited with code 1 after SIGTERM, because rank 0 failed",
            "rank 3 ended by SIGKILL, because rank 0 failed", "rank 4 failed as well: killed by SIGABRT",
            "rank 5 still there after SIGKILL (pid 105, D (disk sleep), in nfs_wait)", "rank 6 had succeeded",
            "rank 7 never started", "a process that a worker had left behind was ended: pid 9 (sleep)",
            "a process that a worker had left behind does not end on SIGKILL: pid 10 (dd), in state D (disk "
            "sleep)"});
}

TEST_CASE("several ranks were killed, and one was") {
  const auto killed = [](int rank) {
    WorkerOutcome outcome = worker(rank, EndKind::kConsequence, ExitStatus::killed(SIGPIPE));
    outcome.stopped_with = SIGTERM;
    return outcome;
  };
  const JobOutcome outcome =
      job({worker(0, EndKind::kRootCause, ExitStatus::exited(9)), killed(1), killed(2)});
  CHECK(consequences(outcome.generations[0]) ==
        std::vector<std::string>{"ranks 1-2 were killed by SIGPIPE after SIGTERM"});
}

TEST_CASE(
    "ranks that the same signal ended are named together, for nobody tells which of them it reached first") {
  JobOutcome outcome = job({stopped(0), worker(1, EndKind::kConsequence, ExitStatus::killed(SIGKILL)),
                            worker(2, EndKind::kRootCause, ExitStatus::killed(SIGKILL)),
                            worker(3, EndKind::kConsequence, ExitStatus::killed(SIGSEGV))});
  const std::string text = render_report(outcome, root_of(outcome, "killed from outside"), context());
  CHECK(text.find("\n  ranks 1-2 were killed by SIGKILL\n  rank 2: killed from outside\n") !=
        std::string::npos);
  CHECK(consequences(outcome.generations[0]) ==
        std::vector<std::string>{"rank 0 ended by SIGTERM, because rank 2 failed",
                                 "rank 3 failed as well: killed by SIGSEGV"});
  CHECK(render_restart(outcome.generations[0], root_of(outcome)) == "ranks 1-2 were killed by SIGKILL");
  CHECK(render_restart(outcome.generations[0], root_of(outcome, "out of memory")) ==
        "ranks 1-2 were killed by SIGKILL (rank 2: out of memory)");
  const std::string undiagnosed = render_report(outcome, root_of(outcome), context());
  CHECK(undiagnosed.find("\n  ranks 1-2 were killed by SIGKILL\n") != std::string::npos);
  // systemd ends the launcher and its workers.
  outcome.generations[0].reason = StopReason::kSignal;
  outcome.generations[0].signal = SIGTERM;
  outcome.generations[0].root_cause.reset();
  outcome.generations[0].workers[1].status = ExitStatus::killed(SIGTERM);
  outcome.generations[0].workers[1].ending = {
      .weight = Weight::kDoubtful, .symptom = "was ended", .is_own_failure = true};
  CHECK(consequences(outcome.generations[0]).front() == "ranks 0-1 ended by SIGTERM");
  outcome.generations[0].signal = SIGINT;
  CHECK(consequences(outcome.generations[0])[1] == "rank 1 was killed by SIGTERM: was ended");
  // Each has its own reason to abort.
  JobOutcome aborted = job({worker(0, EndKind::kRootCause, ExitStatus::killed(SIGABRT)),
                            worker(1, EndKind::kConsequence, ExitStatus::killed(SIGABRT)),
                            worker(2, EndKind::kConsequence, ExitStatus::killed(SIGABRT))});
  CHECK(consequences(aborted.generations[0]) ==
        std::vector<std::string>{"ranks 1-2 failed as well: killed by SIGABRT"});
}

TEST_CASE("a rank that somebody else killed while it was told to end did not end because of another") {
  WorkerOutcome killed = worker(1, EndKind::kConsequence, ExitStatus::killed(SIGKILL));
  killed.stopped_with = SIGTERM;
  const JobOutcome outcome = job({worker(0, EndKind::kRootCause, ExitStatus::exited(9)), killed});
  CHECK(consequences(outcome.generations[0]) ==
        std::vector<std::string>{"rank 1 was killed by SIGKILL after SIGTERM"});
}

TEST_CASE("who was killed for a hang has not failed, and all of them are named together") {
  const auto hung = [](int rank, EndKind end_kind) {
    WorkerOutcome outcome = worker(rank, end_kind, ExitStatus::killed(SIGKILL));
    outcome.hang.reason = "no progress for 5 s (--hang-timeout), so ddprun ended it: ranks 1-2 are stopped";
    return outcome;
  };
  JobOutcome outcome = job({stopped(0), hung(1, EndKind::kRootCause), hung(2, EndKind::kConsequence)});
  const std::string text =
      render_report(outcome, root_of(outcome, outcome.generations[0].workers[1].hang.reason), context());
  CHECK(text.find("\n  ranks 1-2: no progress for 5 s") != std::string::npos);
  CHECK(consequences(outcome.generations[0]) ==
        std::vector<std::string>{"rank 0 ended by SIGTERM, because rank 1 failed"});
  const auto json = nlohmann::json::parse(report_json(outcome, root_of(outcome), context()));
  CHECK(json["generations"][0]["workers"][2]["hang"] == outcome.generations[0].workers[2].hang.reason);
  CHECK_FALSE(json["generations"][0]["workers"][0].contains("hang"));
  // Another node's rank is to blame.
  outcome.generations[0].workers[1].end_kind = EndKind::kConsequence;
  outcome.generations[0].root_cause.reset();
  CHECK(consequences(outcome.generations[0]).back() == "ranks 1-2 were killed by ddprun: no progress");
  // It failed by itself just before it was to be killed.
  outcome.generations[0].workers[2].status = ExitStatus::exited(3);
  CHECK(consequences(outcome.generations[0]).back() == "rank 2 failed as well: exited with code 3");
}

TEST_CASE("what went wrong while a rank was told to end is told, unless it was another one's end") {
  const auto told = [](ExitStatus status, int with, Weight weight) {
    WorkerOutcome unsaved = worker(1, EndKind::kConsequence, status);
    unsaved.stopped_with = with;
    unsaved.ending = {.weight = weight, .error = "OSError: no space"};
    if (weight != Weight::kCause) unsaved.ending.symptom = "lost something";
    return consequences(job({worker(0, EndKind::kRootCause, ExitStatus::exited(9)), unsaved}).generations[0])
        .back();
  };
  CHECK(told(ExitStatus::exited(1), SIGTERM, Weight::kCause) ==
        "rank 1 exited with code 1 after SIGTERM, because rank 0 failed; error: OSError: no space");
  CHECK(told(ExitStatus::exited(1), SIGTERM, Weight::kDoubtful) ==
        "rank 1 exited with code 1 after SIGTERM, because rank 0 failed; error: OSError: no space");
  CHECK(told(ExitStatus::killed(SIGKILL), SIGKILL, Weight::kCause) ==
        "rank 1 ended by SIGKILL, because rank 0 failed; error: OSError: no space");
  CHECK(told(ExitStatus::exited(1), SIGTERM, Weight::kSymptom) ==
        "rank 1 exited with code 1 after SIGTERM, because rank 0 failed");
}

TEST_CASE("what a program makes of the signal that ends it is no error of its own") {
  WorkerOutcome interrupted = stopped(1);
  interrupted.ending = {.error = "KeyboardInterrupt", .is_of_signal = true};
  const JobOutcome outcome = job({worker(0, EndKind::kRootCause, ExitStatus::exited(9)), interrupted});
  CHECK(consequences(outcome.generations[0]).back().find("error") == std::string::npos);
}

TEST_CASE("where a symptom is what came before the end, the ranks that ended alike are named behind it") {
  JobOutcome outcome = job({worker(0, EndKind::kRootCause, ExitStatus::killed(SIGTERM)),
                            worker(1, EndKind::kConsequence, ExitStatus::killed(SIGTERM))},
                           StopReason::kSignal);
  outcome.generations[0].root_cause = 0;
  CHECK_THAT(render_report(outcome, std::nullopt, context()),
             Catch::Contains("rank 1 was killed by SIGTERM"));
}

TEST_CASE(
    "a rank that stood still while another waited for it is told by that, and the other one speaks for it") {
  WorkerOutcome victim = worker(1, EndKind::kConsequence, ExitStatus::exited(1));
  victim.ending = {
      .weight = Weight::kSymptom, .symptom = "waited in vain (timed out)", .is_own_failure = true};
  WorkerOutcome still = stopped(0);
  still.end_kind = EndKind::kRootCause;
  still.was_suspended = true;
  still.ending = {.weight = Weight::kSymptom, .symptom = "lost a peer"};  // once it went on
  JobOutcome outcome = job({still, victim, stopped(2)});
  outcome.generations[0].root_cause = 0;
  outcome.generations[0].victim = 1;
  RootCause root{still, "RuntimeError: timed out", std::nullopt};
  root.victim = victim;
  const std::string report = render_report(outcome, root, context());
  CHECK_THAT(report,
             Catch::Contains("host node-a) was stopped by a signal (SIGSTOP), while others waited for it\n"
                             "  rank 1: RuntimeError: timed out\n"));
  CHECK_THAT(report, Catch::Contains("rank 1 exited with code 1: waited in vain (timed out)\n"));
  CHECK_THAT(report, Catch::Contains("rank 2 ended by SIGTERM, because rank 1 failed\n"));
  CHECK_THAT(report, !Catch::Contains("a symptom"));
  CHECK(render_restart(outcome.generations[0], root) ==
        "rank 0 was stopped by a signal (SIGSTOP) while others waited for it (rank 1: RuntimeError: timed "
        "out)");
}

TEST_CASE("of a job that was told to stop nobody failed as well, and a drained one has not failed") {
  JobOutcome outcome =
      job({stopped(0), worker(1, EndKind::kConsequence, ExitStatus::killed(SIGHUP))}, StopReason::kSignal);
  CHECK(consequences(outcome.generations[0]).back() == "rank 1 was killed by SIGHUP");
  outcome.why = membership::kDrained;
  CHECK_THAT(render_report(outcome, std::nullopt, context()),
             Catch::StartsWith("ddprun: train.py was drained; start it again to go on\n"));
}

TEST_CASE("of several ranks it is said that they were ended") {
  const auto ended = [](int rank) {
    WorkerOutcome outcome = worker(rank, EndKind::kConsequence, ExitStatus::killed(SIGTERM));
    outcome.ending = {.weight = Weight::kDoubtful,
                      .symptom = "was ended by somebody else (SIGTERM)",
                      .is_own_failure = true};
    return outcome;
  };
  const JobOutcome outcome = job({worker(0, EndKind::kRootCause, ExitStatus::exited(9)), ended(1), ended(2)});
  CHECK(consequences(outcome.generations[0]).back() ==
        "ranks 1-2 were killed by SIGTERM: were ended by somebody else (SIGTERM)");
  const auto failed = [](int rank) {
    WorkerOutcome gone = stopped(rank);
    gone.ending = {.error = "OSError: store: was ended by admin"};
    return gone;
  };
  const JobOutcome other = job({worker(0, EndKind::kRootCause, ExitStatus::exited(9)), failed(1), failed(2)});
  CHECK_THAT(consequences(other.generations[0]).back(),
             Catch::EndsWith("; error: OSError: store: was ended by admin"));
}

TEST_CASE("the traceback is shown, whatever was printed after it") {
  JobOutcome outcome = job({worker(0, EndKind::kRootCause, ExitStatus::exited(1))});
  outcome.generations[0].workers[0].stderr_tail = "wandb: line 399\nwandb: line 400\n";
  outcome.generations[0].workers[0].stderr_path = "/l/stderr.log";
  std::optional<RootCause> root = root_of(outcome, "uncaught Python exception ValueError: nan");
  root->exception = LastException{
      .traceback = {.exception = "ValueError: nan",
                    .shown = {"Traceback (most recent call last):", "  File \"t.py\", line 1, in f",
                              "  … 12 frames in torch", "ValueError: nan"}},
      .bearing = Bearing::kUncaught};
  CHECK(
      render_report(outcome, root, context()) ==
      "ddprun: train.py failed: rank 0 (local rank 0, pid 100, host node-a) exited with code 1 after 1.2 s\n"
      "  uncaught Python exception ValueError: nan\n"
      "\n"
      "  its traceback (/l/stderr.log):\n"
      "    | Traceback (most recent call last):\n"
      "    |   File \"t.py\", line 1, in f\n"
      "    |   … 12 frames in torch\n"
      "    | ValueError: nan\n");
  CHECK(nlohmann::json::parse(report_json(outcome, root, context()))["root_cause"]["traceback"].size() == 4);
}

TEST_CASE("a traceback that the program survived is shown as such, and what it said after it") {
  JobOutcome outcome = job({worker(0, EndKind::kRootCause, ExitStatus::exited(3))});
  WorkerOutcome& guilty = outcome.generations[0].workers[0];
  guilty.stderr_tail = "Traceback (most recent call last):\nValueError: nan\nstep 2\nno such data set\n";
  guilty.traceback = {.text = "x", .bytes_after = 24, .lines_after = 2};
  std::optional<RootCause> root = root_of(outcome);
  root->exception =
      LastException{.traceback = {.exception = "ValueError: nan",
                                  .shown = {"Traceback (most recent call last):", "ValueError: nan"}},
                    .lines_after = 2};
  CHECK(
      render_report(outcome, root, context()) ==
      "ddprun: train.py failed: rank 0 (local rank 0, pid 100, host node-a) exited with code 3 after 1.2 s\n"
      "\n"
      "  the last traceback it printed, 2 lines before its end:\n"
      "    | Traceback (most recent call last):\n"
      "    | ValueError: nan\n"
      "\n"
      "  the last 2 lines of its stderr:\n"
      "    | step 2\n"
      "    | no such data set\n");
  CHECK(nlohmann::json::parse(report_json(outcome, root, context()))["root_cause"]["traceback"].is_null());
}

TEST_CASE("the same error of several ranks is told once") {
  JobOutcome outcome = job({worker(0, EndKind::kConsequence, ExitStatus::exited(1)), stopped(1),
                            worker(2, EndKind::kRootCause, ExitStatus::exited(1)), stopped(3)});
  std::vector<WorkerOutcome>& workers = outcome.generations[0].workers;
  for (const int rank : {0, 2, 3})
    workers[static_cast<std::size_t>(rank)].ending = {.error = "NotImplementedError", .is_own_failure = true};
  const std::string text =
      render_report(outcome, root_of(outcome, "uncaught Python exception NotImplementedError"), context());
  CHECK(text.find("\n  ranks 0, 2-3: uncaught Python exception NotImplementedError\n") != std::string::npos);
  CHECK(consequences(outcome.generations[0]) ==
        std::vector<std::string>{"rank 1 ended by SIGTERM, because rank 2 failed"});
  CHECK(render_restart(outcome.generations[0],
                       root_of(outcome, "uncaught Python exception NotImplementedError")) ==
        "ranks 0, 2-3 exited with code 1 (uncaught Python exception NotImplementedError)");
}

TEST_CASE("a rank that failed by itself is not called a consequence, and one that lost a peer says so") {
  JobOutcome outcome = job({worker(0, EndKind::kRootCause, ExitStatus::exited(9)), stopped(1), stopped(2),
                            worker(3, EndKind::kConsequence, ExitStatus::exited(1)), stopped(4),
                            worker(5, EndKind::kConsequence, ExitStatus::exited(1))});
  std::vector<WorkerOutcome>& workers = outcome.generations[0].workers;
  workers[2].ending = {.error = "KeyError: 'label'", .is_own_failure = true};
  workers[3].ending = {.weight = Weight::kSymptom,
                       .symptom = "lost a peer (closed)",
                       .error = "RuntimeError: closed",
                       .is_own_failure = true};
  workers[4].ending = workers[3].ending;
  workers[5].ending = {.error = "OSError: gone", .is_own_failure = true};
  CHECK(consequences(outcome.generations[0]) ==
        std::vector<std::string>{
            "rank 1 ended by SIGTERM, because rank 0 failed", "rank 2 failed by itself: KeyError: 'label'",
            "rank 3 exited with code 1: lost a peer (closed)", "rank 4 lost a peer (closed)",
            "rank 5 failed as well: exited with code 1 (OSError: gone)"});
}

TEST_CASE("a rank that left with 0 while others waited is named with what they say") {
  JobOutcome outcome = job({worker(0, EndKind::kConsequence, ExitStatus::exited(1), 1500),
                            worker(1, EndKind::kRootCause, ExitStatus::exited(0))});
  WorkerOutcome& victim = outcome.generations[0].workers[0];
  victim.stderr_tail = "RuntimeError: Connection closed by peer\n";
  victim.ending = {.weight = Weight::kSymptom, .symptom = "lost a peer (closed)", .is_own_failure = true};
  std::optional<RootCause> root = root_of(outcome, "uncaught Python exception RuntimeError: closed");
  root->victim = victim;
  CHECK(render_report(outcome, root, context()) ==
        "ddprun: train.py failed: rank 1 (local rank 1, pid 101, host node-a) left with exit code 0 after "
        "1.2 s, while "
        "others waited for it\n"
        "  rank 0: uncaught Python exception RuntimeError: closed\n"
        "\n"
        "  the last line of what rank 0, which lost it, wrote to stderr:\n"
        "    | RuntimeError: Connection closed by peer\n"
        "\n"
        "  then      rank 0 exited with code 1: lost a peer (closed)\n");
  CHECK(render_restart(outcome.generations[0], root) ==
        "rank 1 left with exit code 0 while others waited for it (rank 0: uncaught Python exception "
        "RuntimeError: closed)");
}

TEST_CASE("a symptom that nobody explains is called one") {
  JobOutcome outcome = job({worker(0, EndKind::kRootCause, ExitStatus::exited(1)), stopped(1)});
  outcome.generations[0].workers[0].ending = {.weight = Weight::kSymptom,
                                              .symptom = "waited in vain for a peer (x)"};
  CHECK(render_report(outcome, root_of(outcome), context())
            .find("  a symptom: it waited in vain for a peer (x), and no other rank has said why; rank 1 was "
                  "still running\n") != std::string::npos);
}

TEST_CASE("a culprit that our signal found cleaning up failed before") {
  JobOutcome outcome = job({worker(0, EndKind::kConsequence, ExitStatus::exited(1)), stopped(1)});
  WorkerOutcome& guilty = outcome.generations[0].workers[1];
  guilty.end_kind = EndKind::kRootCause;
  guilty.ending = {.error = "ValueError: nan", .is_own_failure = true};
  guilty.ending.failed_at = TimePoint(milliseconds(700));
  CHECK(headline(guilty, "node-a") == "rank 1 (local rank 1, pid 101, host node-a) failed after 700 ms");
}

TEST_CASE("a worker that could not be started is named with the reason") {
  WorkerOutcome unborn;
  unborn.rank = Rank(1);
  unborn.local_rank = LocalRank(1);
  unborn.end_kind = EndKind::kRootCause;
  unborn.spawn_error = Error(ErrorCode::kOs, "fork: resource temporarily unavailable");
  const JobOutcome outcome = job({stopped(0), unborn}, StopReason::kSpawnFailed);
  CHECK(render_report(outcome, root_of(outcome), context()) ==
        "ddprun: train.py failed: rank 1 (local rank 1, host node-a) could not be started: fork: resource "
        "temporarily "
        "unavailable\n"
        "\n"
        "  then      rank 0 ended by SIGTERM, because rank 1 failed\n");
}

TEST_CASE("a job that was told to stop has no root cause to look for") {
  JobOutcome outcome = job({stopped(0, SIGINT), stopped(1, SIGINT)}, StopReason::kSignal);
  outcome.signal = SIGINT;
  CHECK(render_report(outcome, std::nullopt, context()) ==
        "ddprun: train.py was stopped by SIGINT\n"
        "  then      ranks 0-1 ended by SIGINT\n");
}

TEST_CASE("a spent restart budget is part of the report") {
  JobOutcome outcome = job({worker(0, EndKind::kRootCause, ExitStatus::exited(1))});
  outcome.restarts_used = 1;
  outcome.why = "the restart budget is spent: 1 of 1";
  ReportContext where = context();
  where.max_restarts = 1;
  CHECK(
      render_report(outcome, root_of(outcome), where) ==
      "ddprun: train.py failed: rank 0 (local rank 0, pid 100, host node-a) exited with code 1 after 1.2 s\n"
      "\n"
      "  it wrote nothing to stderr\n"
      "\n"
      "  restarts  1 of 1 used\n");
}

TEST_CASE("a failed generation that is restarted takes one line") {
  const JobOutcome outcome = job({worker(0, EndKind::kRootCause, ExitStatus::killed(SIGKILL))});
  CHECK(render_restart(outcome.generations[0], root_of(outcome, "killed from outside")) ==
        "rank 0 was killed by SIGKILL (killed from outside)");
}

TEST_CASE("no more than twenty lines of stderr are shown, the last ones") {
  JobOutcome outcome = job({worker(0, EndKind::kRootCause, ExitStatus::exited(1))});
  for (int line = 1; line <= 30; ++line)
    outcome.generations[0].workers[0].stderr_tail += "line " + std::to_string(line) + "\n";
  const std::string text = render_report(outcome, root_of(outcome), context());
  CHECK(text.find("the last 20 lines") != std::string::npos);
  CHECK(text.find("| line 10\n") == std::string::npos);
  CHECK(text.find("| line 11\n") != std::string::npos);
  CHECK(text.find("| line 30\n") != std::string::npos);
}

TEST_CASE("the JSON form has every worker, and nanoseconds") {
  JobOutcome outcome = job({stopped(0), worker(1, EndKind::kRootCause, ExitStatus::killed(SIGSEGV, true))});
  outcome.generations[0].workers[1].stderr_tail = "bad \xff byte";
  const auto json = nlohmann::json::parse(report_json(outcome, root_of(outcome, "words"), context()));
  CHECK(json["version"] == 1);
  CHECK(json["job"] == "train.py");
  CHECK(json["exit_code"] == 1);
  CHECK(json["root_cause"]["rank"] == 1);
  CHECK(json["root_cause"]["signal"] == "SIGSEGV");
  CHECK(json["root_cause"]["core_dumped"] == true);
  CHECK(json["root_cause"]["diagnosis"] == "words");
  CHECK(json["root_cause"]["duration_ns"] == 1'200'000'000);
  CHECK(json["generations"][0]["root_cause_rank"] == 1);
  CHECK(json["generations"][0]["workers"][0]["verdict"] == "consequence");
  CHECK(json["generations"][0]["workers"][0]["stopped_with"] == "SIGTERM");
}

TEST_CASE("starts that cost no restart are not counted among those that do") {
  JobOutcome outcome{.exit_code = 7, .restarts_used = 1};
  outcome.generations.resize(3);
  ReportContext where = context();
  where.max_restarts = 3;
  const auto json = nlohmann::json::parse(report_json(outcome, std::nullopt, where));
  CHECK(json["restarts"]["used"] == 1);
  CHECK_THAT(render_report(outcome, std::nullopt, where), Catch::Contains("  restarts  1 of 3 used\n"));
}

TEST_CASE("the coordinator's --max-restarts counts, and the report of another node says so") {
  JobOutcome outcome{.exit_code = 7, .restarts_allowed = 0};
  outcome.generations.resize(1);
  ReportContext where = context();
  where.max_restarts = 3;
  CHECK_THAT(
      render_report(outcome, std::nullopt, where),
      Catch::Contains(
          "  restarts  0 of 0 used (--max-restarts counts where the coordinator runs; here it is 3)\n"));
  where.max_restarts = 0;
  outcome.restarts_allowed = 3;
  outcome.refusal = "exit code 5 means that a restart will not help";
  CHECK_THAT(render_report(outcome, std::nullopt, where),
             Catch::Contains("  restarts  0 of 3 used; exit code 5 means that a restart will not help\n"));
  where.max_restarts = 3;
  outcome.restarts_allowed = 0;
  CHECK(nlohmann::json::parse(report_json(outcome, std::nullopt, where))["restarts"]["allowed"] == 0);
}

TEST_CASE("the line of the restarts tells of restarts only, and why there was none") {
  JobOutcome outcome{.exit_code = 7, .reason = StopReason::kRoundStopped, .restarts_used = 1};
  outcome.why = "rank 1 exited with code 7 on node 1 (b); the restart budget is spent: 1 of 1";
  ReportContext where = context();
  where.max_restarts = 1;
  CHECK_THAT(render_report(outcome, std::nullopt, where), Catch::EndsWith("\n  restarts  1 of 1 used\n"));
  where.max_restarts = 3;
  outcome.refusal = "the launcher received SIGTERM";
  CHECK_THAT(render_report(outcome, std::nullopt, where),
             Catch::EndsWith("\n  restarts  1 of 3 used; the launcher received SIGTERM\n"));
  where.restart_window = std::chrono::minutes(10);
  outcome.refusal.clear();
  CHECK_THAT(render_report(outcome, std::nullopt, where),
             Catch::EndsWith("\n  restarts  1 used, 3 are allowed within 10 min\n"));
}
