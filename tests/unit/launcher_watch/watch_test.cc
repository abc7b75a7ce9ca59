#include "launcher/watch/metrics_text.h"
#include "launcher/watch/other_ranks.h"
#include "launcher/watch/sample_json.h"
#include "launcher/watch/screen.h"
#include "tests/support/catch.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <set>
#include <string>

using namespace ddprun::launcher::watch;
using ddprun::launcher::why::Collective;

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

/// Two ranks, of which the second comes 0.3 s late to every collective, ten a second.
JobSample sample_at(double at_s) {
  JobSample sample;
  sample.command = "ddprun train.py";
  sample.state = {.launcher = 4711,
                  .tag = "ddprun-a",
                  .run_id = "the \"first\"\n",
                  .phase = "running",
                  .local_world_size = 2,
                  .world_size = 2,
                  .max_restarts = 3};
  sample.at_s = at_s;
  sample.taken_ns = static_cast<std::int64_t>(at_s * static_cast<double>(kSecond));
  for (int rank = 0; rank < 2; ++rank) {
    RankSample& one = sample.ranks.emplace_back();
    one.rank = one.local_rank = rank;
    one.pid = 100 + rank;
    one.state = "S";
    one.cpu_s = at_s / 2;
    one.memory = 64 << 20;
    one.recorder.is_there = true;
    one.recorder.next = static_cast<std::uint64_t>(at_s * 10);
    for (int i = 6; i > 0; --i) {
      const double late = rank == 0 ? 0 : 0.3;
      Collective entry{.group = "0", .sequence = 10 - i, .operation = "all_reduce", .is_over = true};
      entry.created_ns =
          sample.taken_ns - i * kSecond + static_cast<std::int64_t>(late * static_cast<double>(kSecond));
      one.recorder.entries.push_back(entry);
    }
  }
  return sample;
}

/// Ranks 2 and 3 on host b.
JobSample other_sample_at(double at_s) {
  JobSample sample = sample_at(at_s);
  sample.host = "b";
  for (RankSample& rank : sample.ranks) rank.rank += 2;
  return sample;
}

constexpr std::size_t kPlenty = 1 << 20;
constexpr std::chrono::milliseconds kWaited{1500};
const std::string kNode = "node b (10.0.0.2)";

/// Which is asked, and has said `text`, or nothing yet.
ddprun::launcher::why::OtherNodes answer_of(const std::string& text) {
  ddprun::launcher::why::OtherNodes nodes;
  nodes.take({.from = 2, .node = kNode});
  nodes.take({.is_last = true});
  if (!text.empty()) nodes.take({.from = 2, .node = kNode, .text = text, .is_last = true});
  return nodes;
}

OtherRanks::Time at(int seconds) { return OtherRanks::Time(std::chrono::seconds(1000 + seconds)); }

}  // namespace

TEST_CASE("the screen shows of each rank what it does, its pace, how late it is, and its last output") {
  JobSample now = sample_at(100);
  now.ranks[0].recorder.entries.back().is_over = false;
  now.ranks[1].last_output_s = 2;
  now.ranks[1].last_line = "epoch 3, loss 0.12";
  CHECK(render_screen({{.now = now, .before = sample_at(98)}}, {}) ==
        "job ddprun-a (pid 4711): running, 2 of 2 ranks here, 0 of 3 restarts, ddprun train.py\n"
        "  RANK  PID       STATE                COLLECTIVES PACE      LATE     CPU    MEMORY    LAST OUTPUT\n"
        "  0     100       all_reduce 1.0 s     1000        10.0/s    0.0 s    50 %   64 MiB\n"
        "  1     101       computes             1000        10.0/s    300 ms   50 %   64 MiB    2.0 s ago: "
        "epoch 3, "
        "loss 0.12\n"
        "  rank 1 is the slowest: at collectives it comes 300 ms after the first, 30 % of the time\n");
}

TEST_CASE("of a rank that tells its steps and what it does, these are shown") {
  JobSample before = sample_at(98);
  JobSample now = sample_at(100);
  before.ranks[0].progress = {.step = 1200, .phase = "evaluates"};
  now.ranks[0].progress = {.step = 1217, .phase = "evaluates with a long text"};
  CHECK(render_screen({{.now = now, .before = before}}, {.columns = 70}) ==
        "job ddprun-a (pid 4711): running, 2 of 2 ranks here, 0 of 3 restart…\n"
        "  RANK  PID       STATE                STEP            COLLECTIVES …\n"
        "  0     100       evaluates with a lo… 1217 (8.5/s)    1000      …\n"
        "  1     101       computes             -               1000        …\n"
        "  rank 1 is the slowest: at collectives it comes 300 ms after the f…\n");
  CHECK(metrics_text(now).find("rank=\"0\"} 1217\n") != std::string::npos);
  CHECK(metrics_text(before).find("ddprun_rank_steps_total{") != std::string::npos);
  CHECK(metrics_text(sample_at(98)).find("ddprun_rank_steps_total") == std::string::npos);
  const std::optional<JobSample> told = parse_sample(to_text(now, kPlenty));
  REQUIRE(told.has_value());
  CHECK(told->ranks[0].progress.step == 1217);
  CHECK(told->ranks[0].progress.phase == "evaluates with a long text");
  CHECK(told->ranks[1].progress.step == -1);
}

TEST_CASE(
    "where a rank has a GPU, there is a column for it, and it is told to other nodes and to Prometheus") {
  JobSample now = sample_at(100);
  now.ranks[1].gpu = GpuUse{.utilization = 0.97, .memory = 61ULL << 30};
  CHECK(render_screen({{.now = now, .before = {}}}, {}) ==
        "job ddprun-a (pid 4711): running, 2 of 2 ranks here, 0 of 3 restarts, ddprun train.py\n"
        "  RANK  PID       STATE                COLLECTIVES PACE      LATE     CPU    MEMORY    "
        "GPU              LAST OUTPUT\n"
        "  0     100       sleeps               1000        -         0.0 s    -      64 MiB    -\n"
        "  1     101       sleeps               1000        -         300 ms   -      64 MiB    97 % 61 GiB\n"
        "  rank 1 is the slowest: at collectives it comes 300 ms after the first, 30 % of the time\n");
  const std::string metrics = metrics_text(now);
  CHECK(metrics.find(
            "ddprun_rank_gpu_utilization_ratio{job=\"ddprun-a\",run_id=\"the \\\"first\\\"\\n\",rank=\"1\"} "
            "0.97\n") != std::string::npos);
  CHECK(metrics.find("ddprun_rank_gpu_memory_bytes") != std::string::npos);
  CHECK(metrics_text(sample_at(100)).find("gpu") == std::string::npos);
  now.ranks[0].gpu = GpuUse{.memory = 5};
  const std::optional<JobSample> told = parse_sample(to_text(now, kPlenty));
  REQUIRE(told.has_value());
  CHECK_FALSE(told->ranks[0].gpu->utilization);
  CHECK(told->ranks[0].gpu->memory == 5);
  CHECK(told->ranks[1].gpu->utilization == 0.97);
  CHECK(told->ranks[1].gpu->memory == 61ULL << 30);
}

TEST_CASE("the GPUs of a rank are those on which its process computes, or what its environment says") {
  std::vector<GpuReading> gpus{
      {.minor = 3, .uuid = "GPU-aa11", .utilization = 0.25, .memory = 10, .processes = {7, 8}},
      {.minor = 4, .uuid = "GPU-bb22", .utilization = 0.75, .memory = 20, .processes = {8}}};
  CHECK(gpu_use(gpus, {.pid = 7})->memory == 10);
  CHECK(gpu_use(gpus, {.pid = 8})->memory == 30);
  CHECK(gpu_use(gpus, {.pid = 8})->utilization == 0.5);
  gpus[0].utilization.reset();
  CHECK_FALSE(gpu_use(gpus, {.pid = 8})->utilization);
  // In a container nobody is known by its number.
  const auto in_container = [&](int local_rank, std::set<int> opened,
                                std::optional<std::string> visible = {}) {
    return gpu_use(gpus, {.pid = 9,
                          .local_rank = local_rank,
                          .opened = std::move(opened),
                          .visible = std::move(visible),
                          .is_in_container = true});
  };
  CHECK_FALSE(in_container(0, {}));
  CHECK(in_container(1, {3, 4})->memory == 20);
  CHECK_FALSE(in_container(2, {3, 4}));
  CHECK(in_container(0, {4}, "1,0")->memory == 20);
  CHECK(in_container(5, {4}, "GPU-bb")->memory == 20);
  for (const char* visible : {"", "-1", "7", "GPU-cc", ",", "1,,"})
    CHECK_FALSE(in_container(1, {3}, visible));
  // Elsewhere it would be known.
  CHECK_FALSE(gpu_use(gpus, {.pid = 9, .local_rank = 1, .opened = {3, 4}}));
}

TEST_CASE("a job that waits for its other nodes has no ranks yet, and says for whom it waits") {
  JobSample now = sample_at(100);
  now.state.phase = "starting";
  now.state.world_size = 0;
  for (RankSample& rank : now.ranks) rank.pid = 0;
  CHECK(render_screen({{.now = now, .before = {}}}, {}) ==
        "job ddprun-a (pid 4711): starting, no ranks yet, 0 of 3 restarts, ddprun train.py\n");
  now.state.awaits = "1 of 2 nodes are here; missing: node rank 0";
  CHECK(render_screen({{.now = now, .before = {}}}, {}) ==
        "job ddprun-a (pid 4711): starting, 1 of 2 nodes are here; missing: node rank 0, 0 of 3 restarts, "
        "ddprun train.py\n");
}

TEST_CASE("lines of the screen are cut to the terminal's width") {
  JobSample now = sample_at(100);
  now.ranks[1].last_output_s = 2;
  now.ranks[1].last_line = std::string(200, 'x');
  const std::string page = render_screen({{.now = now, .before = {}}}, {.columns = 60});
  std::size_t begin = 0;
  for (std::size_t end = page.find('\n'); end != std::string::npos; end = page.find('\n', begin)) {
    CHECK(end - begin <= 60);
    begin = end + 1;
  }
}

TEST_CASE(
    "ranks that do not fit on the screen are left out and counted, and the slowest is named all the same") {
  JobSample large = sample_at(100);
  for (int rank = 2; rank < 100; ++rank) {
    large.ranks.push_back(large.ranks[0]);
    large.ranks.back().rank = rank;
  }
  const auto lines = [](const std::string& page) { return std::count(page.begin(), page.end(), '\n'); };
  const std::vector<WatchedJob> jobs{{.now = large, .before = {}}, {.now = sample_at(100), .before = {}}};
  CHECK(lines(render_screen(jobs, {})) == 109 - 1);
  const std::string page = render_screen(jobs, {.rows = 24});
  CHECK(lines(page) < 24);
  CHECK(lines(page) >= 20);
  CHECK(page.find("… and 87 more ranks; `ddprun ps --watch | less` shows all\n") != std::string::npos);
  CHECK(page.find("  rank 1 is the slowest") != std::string::npos);
  CHECK(lines(render_screen(jobs, {.rows = 3})) >= 6);  // what a job is stays
}

TEST_CASE("of a rank that has ended, or has no flight recorder, nothing is made up") {
  JobSample now = sample_at(100);
  now.ranks[0] = {.rank = 0};
  now.ranks[1].recorder = {};
  const std::vector<RankNumbers> rows = numbers_of(now, nullptr);
  CHECK(rows[0].doing == "ended");
  CHECK_FALSE(rows[1].collectives);
  CHECK_FALSE(rows[1].cpu_share);
  const std::string text = metrics_text(now);
  CHECK(text.find("ddprun_rank_up{job=\"ddprun-a\",run_id=\"the \\\"first\\\"\\n\",rank=\"0\"} 0\n") !=
        std::string::npos);
  CHECK(text.find("ddprun_rank_collectives_total") == std::string::npos);
}

TEST_CASE("a worker that took the place of another begins anew") {
  JobSample now = sample_at(100);
  JobSample before = sample_at(98);
  before.ranks[0].pid = 99;
  const std::vector<RankNumbers> rows = numbers_of(now, &before);
  CHECK_FALSE(rows[0].collectives_per_s);
  CHECK(rows[1].collectives_per_s == 10.0);
}

TEST_CASE(
    "ranks of all nodes are on one page, by rank, each with its host, and late among those of its host") {
  WatchedJob job{.now = sample_at(100), .before = sample_at(98)};
  job.now.host = "a";
  job.now.state.world_size = 4;
  OtherRanks others;
  others.take(answer_of(to_text(other_sample_at(7), kPlenty)), 4711, at(0), kWaited);
  others.take(answer_of(to_text(other_sample_at(9), kPlenty)), 4711, at(2), kWaited);
  job.others = others.samples();
  job.unseen = {"node c has not answered within 1.5 s"};
  CHECK(
      render_screen({job}, {}) ==
      "job ddprun-a (pid 4711): running, 2 of 4 ranks here, 0 of 3 restarts, ddprun train.py\n"
      "  RANK  HOST      PID       STATE                COLLECTIVES PACE      LATE     CPU    MEMORY    LAST "
      "OUTPUT\n"
      "  0     a         100       computes             1000        10.0/s    0.0 s    50 %   64 MiB\n"
      "  1     a         101       computes             1000        10.0/s    300 ms   50 %   64 MiB\n"
      "  2     b         100       computes             90          10.0/s    0.0 s    50 %   64 MiB\n"
      "  3     b         101       computes             90          10.0/s    300 ms   50 %   64 MiB\n"
      "  rank 1 is the slowest of those on a: at collectives it comes 300 ms after the first, 30 % of the "
      "time\n"
      "  node c has not answered within 1.5 s\n");
}

TEST_CASE("many nodes that say nothing leave room for ranks on a screen") {
  WatchedJob job{.now = sample_at(100), .before = {}};
  job.unseen.assign(100, "node c has not answered within 1.5 s");
  const std::string page = render_screen({job}, {.rows = 24});
  CHECK(std::count(page.begin(), page.end(), '\n') < 24);
  CHECK(page.find("\n  1     101 ") != std::string::npos);
  CHECK(page.find("\n  … and of 96 more nodes\n") != std::string::npos);
}

TEST_CASE("what a node told stays for a while when it says nothing more, and the page says so") {
  OtherRanks others;
  others.take(answer_of({}), 4711, at(0), kWaited);
  CHECK(others.samples().empty());
  CHECK(others.unseen() == std::vector<std::string>{kNode + " has not answered within 1.5 s"});
  others.take(answer_of(to_text(other_sample_at(7), kPlenty)), 4711, at(2), kWaited);
  CHECK(others.samples().size() == 1);
  CHECK(others.unseen().empty());
  others.take(answer_of({}), 4711, at(6), kWaited);
  CHECK(others.samples().size() == 1);
  CHECK(others.unseen() ==
        std::vector<std::string>{kNode + " has not answered within 1.5 s; its ranks are as they "
                                         "were 4.0 s ago"});
  others.take(answer_of({}), 4711, at(13), kWaited);
  CHECK(others.samples().empty());
  CHECK(others.unseen() == std::vector<std::string>{kNode + " has not answered within 1.5 s"});
}

TEST_CASE("a node that is older, waits for its seat, or is gone, and a launcher that says nothing") {
  OtherRanks others;
  ddprun::launcher::why::OtherNodes older;
  older.take({.from = 2, .node = kNode, .is_last = true, .is_older = true});
  older.take({.is_last = true});
  CHECK(older.is_over());
  others.take(older, 4711, at(0), kWaited);
  CHECK(others.unseen() ==
        std::vector<std::string>{kNode + " is of an older ddprun, which does not tell others of its ranks"});
  JobSample waiting;
  waiting.host = "b";
  waiting.state.phase = "starting";
  others.take(answer_of(to_text(waiting, kPlenty)), 4711, at(2), kWaited);
  CHECK(others.samples().empty());
  CHECK(others.unseen() == std::vector<std::string>{kNode + " has no rank at the moment: it is starting"});
  others.take(answer_of(to_text(other_sample_at(7), kPlenty)), 4711, at(4), kWaited);
  others.take({}, 4711, at(6), kWaited);
  CHECK(others.samples().size() == 1);
  CHECK(others.unseen() ==
        std::vector<std::string>{
            "the launcher here (pid 4711) has passed on no answer within 1.5 s: it or its coordinator stands "
            "still, or it is of an older ddprun",
            "of b: its ranks are as they were 2.0 s ago"});
  ddprun::launcher::why::OtherNodes nobody;
  nobody.take({.is_last = true});
  others.take(nobody, 4711, at(8), kWaited);
  CHECK(others.samples().empty());
  CHECK(others.unseen().empty());
}

TEST_CASE("what is told of ranks fits, and shows the same there but for what is left out") {
  JobSample many = other_sample_at(9);
  for (int i = 0; i < 30; ++i) {
    many.ranks.push_back(many.ranks[static_cast<std::size_t>(i)]);
    many.ranks.back().rank = 4 + i;
    many.ranks.back().last_output_s = 1;
    many.ranks.back().last_line.assign(300, 'x').append("\x1b[2J");
  }
  const std::optional<JobSample> whole = parse_sample(to_text(other_sample_at(9), kPlenty));
  REQUIRE(whole.has_value());
  CHECK(std::abs(numbers_of(*whole, nullptr)[1].late_s - 0.3) < 1e-9);
  for (const std::size_t most : {20'000, 10'000, 6'000, 3'000}) {
    CAPTURE(most);
    const std::string text = to_text(many, most);
    CHECK(text.size() <= most);
    const std::optional<JobSample> told = parse_sample(text);
    REQUIRE(told.has_value());
    CHECK(told->ranks.size() + static_cast<std::size_t>(told->left_out) == 32);
    CHECK(told->ranks[1].recorder.next == 90);
    for (const RankSample& rank : told->ranks) CHECK(rank.last_line.find('\x1b') == std::string::npos);
  }
  CHECK(to_text(many, 10).empty());
  CHECK_FALSE(parse_sample("{\"rank\":1}").has_value());
  CHECK_FALSE(parse_sample("").has_value());
}

TEST_CASE("numbers of another node that cannot be are not used") {
  const auto told = [](const std::string& rank, const std::string& created) {
    return parse_sample(R"({"host":"b","phase":"running","at_s":1,"left_out":0,"ranks":[{"rank":)" + rank +
                        R"(,"local":0,"pid":7,"next":2,"entries":[["g",1,"x",false,)" + created +
                        ",false]]}]}");
  };
  CHECK(told("1", "-5").has_value());
  CHECK_FALSE(told("1e300", "-5").has_value());
  CHECK_FALSE(told("1.5", "-5").has_value());
  const std::optional<JobSample> old = told("99", "-9223372036854775808");
  REQUIRE(old.has_value());
  CHECK(old->ranks[0].recorder.entries[0].created_ns > -40'000'000'000'000'000);
  WatchedJob page{.now = sample_at(100), .before = {}};
  page.others.push_back({.now = *old, .before = {}});
  CHECK(render_screen({page}, {}).find("\n  99 ") == std::string::npos);
}

TEST_CASE("a rank that is alone on its node is not said to be in time") {
  JobSample alone = sample_at(100);
  alone.ranks.pop_back();
  CHECK(render_screen({{.now = alone, .before = {}}}, {})
            .find(" 1000        -         -        -      64 MiB\n") != std::string::npos);
}
