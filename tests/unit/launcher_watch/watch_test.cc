#include "launcher/watch/metrics_text.h"
#include "launcher/watch/screen.h"
#include "tests/support/catch.h"

#include <algorithm>
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
