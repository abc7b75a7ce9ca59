#include "worker/training/resume/memory_checkpoints.h"

#include "rendezvous/base/env_contract.h"
#include "rendezvous/base/unique_fd.h"
#include "tests/support/catch.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <torch/types.h>

#include <array>

using ddprun::PtDict;
using ddprun::training::MemoryCheckpoints;
using ddprun::training::MemoryMark;
using ddprun::training::MemoryMarks;
using ddprun::training::newest_of_all;

namespace {

MemoryMark mark(const char* origin, std::int64_t step) { return {.origin = origin, .step = step}; }

std::optional<MemoryMark> of_copies(const std::vector<std::vector<MemoryMark>>& by_rank) {
  std::vector<MemoryMarks> marks;
  for (const auto& own : by_rank) marks.push_back({.own = own});
  return newest_of_all(marks, /*in_place=*/false);
}

std::optional<MemoryMark> in_place(const std::vector<MemoryMarks>& by_rank) {
  return newest_of_all(by_rank, /*in_place=*/true);
}

/// What a launcher holds for a rank.
class HeldMemory {
 public:
  HeldMemory() {
    for (ddprun::UniqueFd& file : files_)
      file = ddprun::UniqueFd(::memfd_create(ddprun::kKeptMemoryName, MFD_CLOEXEC));
  }
  [[nodiscard]] std::string names() const {
    std::string names;
    for (const ddprun::UniqueFd& file : files_)
      names += (names.empty() ? "/proc/self/fd/" : " /proc/self/fd/") + std::to_string(file.get());
    return names;
  }
  [[nodiscard]] std::size_t bytes_of_tensors() const {
    struct stat status {};
    REQUIRE(::fstat(files_.back().get(), &status) == 0);
    return static_cast<std::size_t>(status.st_size);
  }

 private:
  std::array<ddprun::UniqueFd, ddprun::kKeptFiles> files_;
};

}  // namespace

TEST_CASE("weights that a forward puts in the place of others take no more memory with each step") {
  const ddprun::Context context =
      ddprun::init({.backend = "shm", .device = "cpu", .log = [](const std::string&) {}});
  const HeldMemory held;
  MemoryCheckpoints memory(context, held.names(), "{}", /*in_place=*/true);
  at::Tensor weight = at::zeros({4096});
  memory.watch({weight});
  for (std::int64_t step = 1; step <= 20; ++step) {
    if (step > 5) weight.set_data(weight.clamp(-3, 3));
    memory.save_own(step, {}, {});
    memory.begin_update();
    weight.add_(1);
    PtDict common;
    common.set("weight", weight);
    memory.save_common(step, {}, std::move(common), {weight});
  }
  CHECK(held.bytes_of_tensors() == weight.nbytes());
}

TEST_CASE("of what ranks have in memory, the last step that all of them have counts") {
  const MemoryMark six = mark("a", 6), seven = mark("a", 7), eight = mark("a", 8);
  CHECK(of_copies({{seven, eight}}) == eight);
  CHECK(of_copies({{seven, eight}, {six, seven}}) == seven);
  CHECK(of_copies({{eight, seven}, {seven, eight}, {eight}}) == eight);
}

TEST_CASE("nothing counts that a rank has not, or has of another origin") {
  CHECK_FALSE(of_copies({{}}));
  CHECK_FALSE(of_copies({{mark("a", 7)}, {}}));
  CHECK_FALSE(of_copies({{mark("a", 7)}, {mark("a", 6)}}));
  CHECK_FALSE(of_copies({{mark("a", 7)}, {mark("b", 7)}}));
}

TEST_CASE("of a state that ranks keep in place, one that was not in its update has the half of all") {
  const MemoryMark seven = mark("a", 7), eight = mark("a", 8);
  // Rank 0 was killed in its update, the other one has ended its own.
  CHECK(in_place({{.own = {seven, eight}}, {.own = {seven, eight}, .whole = eight}}) == eight);
  // Rank 0 was killed before its backward, so that no rank could update anything.
  CHECK(in_place({{.own = {seven, mark("a", 6)}, .whole = seven}, {.own = {seven, eight}, .whole = seven}}) ==
        seven);
  // One has failed in an all-reduce that others could still end.
  CHECK(in_place({{.own = {seven, eight}, .whole = seven},
                  {.own = {eight, seven}, .whole = eight},
                  {.own = {eight, seven}}}) == eight);
  CHECK_FALSE(in_place({{.own = {seven, eight}}, {.own = {seven, eight}}}));
  CHECK_FALSE(in_place({{.own = {seven, eight}}, {.own = {seven, eight}, .whole = mark("b", 8)}}));
}
