#include "worker/training/resume/resume.h"

#include "tests/support/catch.h"
#include "tests/support/fake_clock.h"
#include "tests/support/file_content.h"
#include "tests/unit/checkpoint/no_descriptors.h"
#include "tests/unit/checkpoint/temporary_folder.h"
#include <ddprun/exception.h>

#include <sys/stat.h>
#include <torch/types.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

using namespace ddprun;
using namespace ddprun::training;
using ddprun::testing::FakeClock;
using ddprun::testing::TemporaryFolder;

namespace fs = std::filesystem;

namespace {

/// A folder with checkpoints, and starts of jobs that look for theirs there.
class Folder {
 public:
  explicit Folder(const std::string& name = "checkpoints") : folder_(temporary_.file(name)) {
    fs::create_directories(folder_);
  }

  std::string add(std::int64_t step, const Timeline& line = {}) {
    PtDict about, position, content;
    about.set("timeline", to_dict(line));
    position.set("step", step);
    content.set("ddprun", std::move(about));
    content.set("position", std::move(position));
    return CheckpointDirectory(folder_, 100).save(step, content);
  }

  std::optional<ResumePoint> start(const std::string& choice, const JobIdentity& job = {.name = "job"}) {
    Console console(Console::Speaker::kSilent, "never", clock_);
    return find_resume_point(context_, {.folder = folder_, .choice = choice, .job = job}, console);
  }
  /// The step to which a job that is under way goes back; -1: there is nothing to go back to.
  std::int64_t step_of_going_back(const Timeline& own) {
    Console console(Console::Speaker::kSilent, "never", clock_);
    const auto point =
        find_resume_point(context_, {.folder = folder_, .choice = "never", .own = own}, console);
    return point ? step_of(*point) : -1;
  }
  /// As start(), of a job for which `change` happens between its look and its decision.
  std::optional<ResumePoint> start_while(const std::string& choice, const std::function<void()>& change) {
    Console console(Console::Speaker::kSilent, "never", clock_);
    ResumeSearch search(context_, {.folder = folder_, .choice = choice, .job = {.name = "job"}}, console);
    search.look();
    CHECK_FALSE(search.settle());
    change();
    CHECK_FALSE(search.conclude());
    return search.share();
  }
  std::int64_t step_of_start(const std::string& choice, const JobIdentity& job = {.name = "job"}) {
    const auto point = start(choice, job);
    return point ? step_of(*point) : -1;
  }
  static std::int64_t step_of(const ResumePoint& point) {
    return point.content.at("position").as_dict().at("step").as_int();
  }
  void truncate(std::int64_t step) const {
    for (const auto& entry : checkpoints_in(folder_))
      if (entry.step == step) fs::resize_file(entry.path, 100);
  }

  [[nodiscard]] std::set<std::int64_t> steps() const {
    std::set<std::int64_t> found;
    for (const auto& entry : checkpoints_in(folder_)) found.insert(entry.step);
    return found;
  }
  [[nodiscard]] std::string file(const std::string& name) const { return temporary_.file(name); }
  [[nodiscard]] const std::string& path() const { return folder_; }

 private:
  TemporaryFolder temporary_;
  std::string folder_;
  FakeClock clock_;
  Context context_ = init();
};

using Steps = std::set<std::int64_t>;
const Timeline kOther{.id = "other", .job = "another job"};
const JobIdentity kRestart{.name = "job", .earlier = "job", .is_restart = true};

}  // namespace

TEST_CASE("auto goes on from the newest, whatever line it is of") {
  Folder folder;
  folder.add(10, kOther);
  folder.add(20, {.id = "mine", .job = "job"});
  CHECK(folder.step_of_start("auto") == 20);
  CHECK(folder.start("auto")->timeline.id == "mine");
  CHECK(folder.start("auto")->timeline.continues == "mine/20");
}

TEST_CASE("a restart under auto goes on with its own job, and with any other only where that has none") {
  Folder folder;
  folder.add(100, begin_timeline({.name = "job"}));
  folder.add(900, kOther);
  CHECK(folder.step_of_start("auto", kRestart) == 100);
  CHECK(folder.steps() == Steps{100});
  CHECK(folder.step_of_start("auto", {.name = "third", .earlier = "third", .is_restart = true}) == 100);
  CHECK(folder.steps() == Steps{100});
}

TEST_CASE("a job that goes on with the line of an earlier one makes it its own") {
  Folder folder;
  folder.add(100, kOther);
  folder.add(200, folder.start("auto")->timeline);
  folder.add(900, kOther);
  CHECK(folder.step_of_start("auto", kRestart) == 200);
}

TEST_CASE(
    "a job that was told to begin from a checkpoint goes on the next time that it is started like that") {
  Folder base("base");
  const std::string begin = base.add(100, {.id = "base"});
  Folder folder;
  folder.add(900, kOther);
  auto point = folder.start(begin);
  CHECK(point->path == begin);
  CHECK(folder.steps().empty());
  folder.add(120, point->timeline);
  CHECK(folder.step_of_start(begin, {.name = "the same command later"}) == 120);
  CHECK(folder.step_of_start(begin, kRestart) == 120);
}

TEST_CASE(
    "where another checkpoint is at the path that a job began from, a restart goes on, and a start is "
    "refused") {
  Folder base("base"), folder;
  base.add(100, {.id = "base"});
  const std::string latest = base.file("latest.pt");
  fs::create_symlink(base.path() + "/step-00000100.pt", latest);
  folder.add(120, folder.start(latest)->timeline);
  fs::remove(latest);
  fs::create_symlink(base.add(200, {.id = "base"}), latest);
  CHECK(folder.step_of_start(latest, kRestart) == 120);
  CHECK_THROWS_WITH(folder.start(latest),
                    folder.path() + "/step-00000120.pt is of a job that began from " + latest +
                        " when base/100 was there, and now base/200 is; go on with --set "
                        "/resume=auto, or set /output_dir to another place to begin from it");
  CHECK(folder.steps() == Steps{120});
}

TEST_CASE("a job goes on also where the checkpoint that it began from is gone") {
  Folder folder;
  const std::string begin = folder.add(100, {.id = "mine"});
  folder.add(120, folder.start(begin)->timeline);
  fs::remove(begin);
  CHECK(folder.step_of_start(begin) == 120);
  CHECK_THROWS_AS(folder.start(folder.file("nowhere.pt")), Exception);
}

TEST_CASE("a job that is told to begin from another checkpoint begins there") {
  Folder base("base");
  const std::string first = base.add(100, {.id = "base"});
  const std::string second = base.add(200, {.id = "base"});
  Folder folder;
  folder.add(120, folder.start(first)->timeline);
  CHECK(folder.step_of_start(second) == 200);
  CHECK(folder.steps().empty());
}

TEST_CASE("a job that has saved over what it began from goes on with what it saved later") {
  Folder folder;
  const std::string begin = folder.add(20, {.id = "A"});
  const Timeline own = folder.start(begin)->timeline;
  folder.add(20, own);  // the same file: a rollback before the first checkpoint of its own, or an epoch's end
  folder.add(60, own);
  CHECK(folder.step_of_start(begin) == 60);
}

TEST_CASE("a job that goes on with its line moves later checkpoints of another one aside") {
  Folder folder;
  const std::string begin = folder.add(20, {.id = "A"});
  folder.add(30, folder.start(begin)->timeline);
  folder.add(50, kOther);
  CHECK(folder.step_of_start(begin) == 30);
  CHECK(folder.step_of_start("auto") == 30);
}

TEST_CASE("a restart that died among the moves of later checkpoints takes none of those it was leaving") {
  Folder folder;
  const std::string begin = folder.add(100, kOther);
  folder.add(200, kOther);  // 300 is moved already
  CHECK(folder.step_of_start(begin, kRestart) == 100);
  CHECK(folder.steps() == Steps{100});
}

TEST_CASE("a job that shall begin anew does so also when it died before it had set the old ones aside") {
  Folder folder;
  folder.add(100, kOther);
  CHECK(folder.step_of_start("never", kRestart) == -1);
  CHECK(folder.steps().empty());
}

TEST_CASE("a job that began anew goes on from its own when it is restarted, and begins anew by hand") {
  Folder folder;
  folder.add(100, begin_timeline({.name = "job"}));
  CHECK(folder.step_of_start("never", kRestart) == 100);
  CHECK(folder.step_of_start("never") == -1);
}

TEST_CASE("a job that goes back takes its own newest, whatever newer ones of another line lie there") {
  Folder folder;
  const Timeline own = begin_timeline({.name = "job"});
  folder.add(800, kOther);
  CHECK(folder.step_of_going_back(own) == -1);
  folder.add(40, own);
  CHECK(folder.step_of_going_back(own) == 40);
  CHECK(folder.steps() == Steps{40, 800});
}

TEST_CASE("a job that goes back before its first checkpoint takes the one of the folder that it began from") {
  Folder folder;
  folder.add(10, kOther);
  const std::string begin = folder.add(20, kOther);
  const Timeline own = folder.start(begin)->timeline;
  CHECK(folder.step_of_going_back(own) == 20);
  folder.add(800, {.id = "third"});
  CHECK(folder.step_of_going_back(own) == 20);
}

TEST_CASE(
    "a job that goes back takes the one that it went on from also where this says nothing of its line") {
  Folder folder;
  const std::string old = folder.add(10);
  folder.add(20);
  Timeline own = begin_timeline({.name = "job"});
  own.began_path = kept_path(old);
  CHECK(folder.step_of_going_back(own) == 10);
}

TEST_CASE("a job that goes back knows what it began from also where that was named through a link") {
  Folder folder;
  folder.add(10);
  fs::create_directory_symlink(folder.path(), folder.file("link"));
  Timeline own = begin_timeline({.name = "job"});
  own.began_path = kept_path(folder.file("link/step-00000010.pt"));
  CHECK(folder.step_of_going_back(own) == 10);
}

TEST_CASE("a job that goes back, and of which every checkpoint is damaged, is told so") {
  Folder folder;
  const Timeline own = begin_timeline({.name = "job"});
  for (const int step : {40, 80}) {
    folder.add(step, own);
    folder.truncate(step);
  }
  CHECK_THROWS_WITH(folder.step_of_going_back(own),
                    "no checkpoint in " + folder.path() +
                        " to go back to can be read (2 tried); put a whole one there, or start the job anew");
}

TEST_CASE("a checkpoint to begin from that can be read only at the second look is the line's origin") {
  Folder base("base"), folder;
  const std::string begin = base.add(100, {.id = "base"});
  const std::string whole = base.file("whole");
  fs::copy_file(begin, whole);
  base.truncate(100);
  const auto point = folder.start_while(begin, [&] { fs::rename(whole, begin); });
  REQUIRE(point);
  CHECK(point->timeline.began_from == "base/100");
  folder.add(120, point->timeline);
  CHECK(folder.step_of_start(begin) == 120);
}

TEST_CASE("a restart takes no damaged checkpoint that lies beside whole ones of another job for its own") {
  for (const char* choice : {"never", "path"}) {
    Folder base("base"), folder;
    const bool is_path = choice == std::string("path");
    const std::string begin = is_path ? base.add(7, {.id = "base"}) : choice;
    for (const int step : {40, 80, 120}) folder.add(step, kOther);
    folder.truncate(120);
    CHECK(folder.step_of_start(begin, kRestart) == (is_path ? 7 : -1));
    CHECK(folder.steps().empty());
    CHECK(fs::exists(folder.path() + ".old-1/step-00000120.pt"));
  }
}

TEST_CASE("a restart of which every checkpoint is damaged is refused") {
  Folder folder;
  const std::string begin = folder.add(20, kOther);
  folder.add(40, folder.start(begin)->timeline);
  folder.truncate(40);  // that of step 20 is where the job began, and none of another one
  const std::string refusal = "no checkpoint in " + folder.path() +
                              " can be read (1 tried); put a whole one there, or start the job anew";
  CHECK_THROWS_WITH(folder.start(begin, kRestart), refusal);
  fs::remove(begin);
  CHECK_THROWS_WITH(folder.start("never", kRestart), refusal);
}

TEST_CASE("whole checkpoints up to the one of the folder where a job began say nothing of its damaged ones") {
  Folder folder;
  for (const int step : {4, 8}) folder.add(step, kOther);
  const Timeline second = folder.start(folder.file("checkpoints/step-00000008.pt"))->timeline;
  for (const int step : {12, 16}) folder.add(step, second);
  const std::string begin = folder.file("checkpoints/step-00000016.pt");
  folder.add(20, folder.start(begin)->timeline);
  folder.truncate(20);
  CHECK_THROWS_WITH(folder.start(begin, kRestart), Catch::Matchers::Contains("can be read (1 tried)"));
}

TEST_CASE("a damaged checkpoint before the one of the folder where a job began is not its own") {
  Folder folder;
  folder.add(4, kOther);
  const std::string begin = folder.add(8, kOther);
  folder.truncate(4);
  CHECK(folder.step_of_start(begin, kRestart) == 8);
}

TEST_CASE("a restart of a job that began anew moves away what is newer and of another one") {
  Folder folder;
  folder.add(100, begin_timeline({.name = "job"}));
  folder.add(900, kOther);
  CHECK(folder.step_of_start("never", kRestart) == 100);
  CHECK(folder.steps() == Steps{100});
}

TEST_CASE("a link to a checkpoint of the folder is one of the folder") {
  Folder folder;
  folder.add(100);
  folder.add(200);
  const std::string link = folder.file("link.pt");
  fs::create_symlink(fs::path(folder.path()) / "step-00000100.pt", link);
  CHECK(folder.step_of_start(link) == 100);
  CHECK(folder.steps() == Steps{100});
}

TEST_CASE("where the folder is a link, the folder itself is set aside and made anew") {
  Folder folder;
  folder.add(100);
  const std::string disk = folder.file("disk");
  fs::rename(folder.path(), disk);
  fs::create_symlink(disk, folder.path());
  CHECK(folder.step_of_start("never") == -1);
  CHECK(fs::is_symlink(folder.path()));
  CHECK(fs::exists(disk + ".old-1/step-00000100.pt"));
  folder.add(10);
  CHECK(fs::exists(disk + "/step-00000010.pt"));
}

TEST_CASE("where nothing can be moved beside the folder, checkpoints are moved to a folder in it") {
  Folder folder;
  const std::string beside = folder.path() + ".old-1";
  fs::create_symlink("nowhere/at all", beside);
  folder.add(100, begin_timeline({.name = "job"}));
  folder.add(900, kOther);
  CHECK(folder.step_of_start("never", kRestart) == 100);
  CHECK(folder.steps() == Steps{100});
  CHECK(fs::exists(folder.path() + "/old-1/step-00000900.pt"));
  CHECK(folder.step_of_start("never") == -1);
  CHECK(folder.steps().empty());
  CHECK(fs::exists(folder.path() + "/old-2/step-00000100.pt"));
  CHECK(fs::is_symlink(beside));
}

TEST_CASE("what is no file among the checkpoints is passed over") {
  Folder folder;
  folder.add(100);
  REQUIRE(::mkfifo((folder.path() + "/step-00000200.pt").c_str(), 0600) == 0);
  fs::create_directory(folder.path() + "/step-00000300.pt");
  fs::create_symlink("nowhere", folder.path() + "/step-00000400.pt");
  fs::create_symlink("step-00000500.pt", folder.path() + "/step-00000500.pt");
  fs::create_directory(folder.path() + "/best-00000600-loss-0.5.pt");
  CHECK(folder.step_of_start("auto") == 100);
}

TEST_CASE("the lowest rank with the newest checkpoint reads it") {
  CHECK(choose_source({{-1, "a"}, {-1, "b"}}) == -1);
  CHECK(choose_source({{-1, "a"}, {5, "b"}, {7, "c"}, {7, "c"}}) == 2);
}

TEST_CASE("a job whose checkpoints cannot be listed does not begin anew") {
  Folder folder;
  folder.add(10);
  for (const char* choice : {"auto", "never"}) {
    const ddprun::testing::NoDescriptors none;
    CHECK_THROWS_WITH(folder.start(choice), Catch::Matchers::Contains("Too many open files"));
  }
  CHECK(folder.step_of_start("auto") == 10);
}

TEST_CASE("a job whose name and first checkpoint are no UTF-8 writes checkpoints, and goes on from its own") {
  Folder folder;
  const Folder other("M\xfcnchen");
  const std::string began = CheckpointDirectory(other.path(), 3).save(5, PtDict{});
  const JobIdentity job = identify({.launchers = {"M\xfcnchen"}});
  const auto point = folder.start(began, job);
  REQUIRE(point);
  CHECK(point->timeline.job == "M?nchen");
  folder.add(10, point->timeline);
  CHECK(folder.step_of_start(began, job) == 10);
}

TEST_CASE("what rank 0 looks for is what it tells the others") {
  const Wanted wanted{
      .kind = Wanted::Kind::kBegunAt, .line = "id", .began_from = "other/7", .began_path = "/a b"};
  CHECK(read_wanted(to_words(wanted)) == wanted);
  CHECK(is_wanted(wanted, {.began_from = "other/7"}));
  CHECK(is_wanted(wanted, {.id = "id"}));
  CHECK_FALSE(is_wanted(wanted, {.began_path = "/a b"}));
  CHECK(is_begun_otherwise(wanted, {.began_path = "/a b"}));
  CHECK_FALSE(is_begun_otherwise(wanted, {.began_from = "other/7", .began_path = "/a b"}));
  CHECK_FALSE(is_begun_otherwise(wanted, {.began_path = "/c"}));
  CHECK(is_wanted({.kind = Wanted::Kind::kBegunAt, .began_path = "/a b"}, {.began_path = "/a b"}));
  CHECK_FALSE(is_wanted({.kind = Wanted::Kind::kOfLine, .line = "id"}, {.id = "other"}));
  CHECK_FALSE(is_wanted({}, {}));
}

namespace {

/// The newest of a folder whose second checkpoint has that content. 0: the first is taken, because the second is
/// damaged; 1: the second, as it was; 2: anything else.
int outcome_with(const std::string& folder, const std::string& content, const at::Tensor& weights) {
  std::ofstream(folder + "/step-00000020.pt", std::ios::binary) << content;
  FakeClock clock;
  Console console(Console::Speaker::kSilent, "never", clock);
  const Found found = look_for({.kind = Wanted::Kind::kAny}, folder, console);
  if (!found.point) return 2;
  const PtDict& read = found.point->content;
  const bool is_whole = read.at("weights").as_tensor().equal(weights);
  if (found.step == 10) return is_whole && found.by_rank.at(0).damaged == 1 ? 0 : 2;
  return is_whole && read.at("name").as_string() == "second" && found.point->timeline.id == "line" ? 1 : 2;
}

}  // namespace

TEST_CASE("of a checkpoint that is cut anywhere, or in which a bit is wrong, nothing wrong is taken") {
  const TemporaryFolder folder;
  const at::Tensor weights = torch::arange(64, torch::kFloat);
  CheckpointDirectory directory(folder.path(), 2);
  std::string path;
  for (const int step : {10, 20}) {
    PtDict about, position, content;
    about.set("timeline", to_dict({.id = "line"}));
    content.set("ddprun", std::move(about));
    content.set("weights", weights);
    content.set("name", step == 10 ? "first" : "second");
    path = directory.save(step, content);
  }
  const std::string whole = file_content(path);
  CHECK(outcome_with(folder.path(), whole, weights) == 1);
  int damaged = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ (1 << (at * 5 % 8)));
    const int outcome = outcome_with(folder.path(), changed, weights);
    if (outcome == 2) FAIL("byte " << at);
    damaged += outcome == 0 ? 1 : 0;
  }
  // What is not read (padding, times) changes nothing.
  CHECK(damaged > static_cast<int>(whole.size() / 3));
  for (std::size_t size = 0; size < whole.size(); size += 5)
    if (outcome_with(folder.path(), whole.substr(0, size), weights) != 0) FAIL("cut at " << size);
}
