#include "launcher/cleanup/shm_files.h"

#include "launcher/process/process_table.h"
#include "tests/support/catch.h"

using namespace ddprun::launcher;

TEST_CASE("the maker of a segment is read from the name that PyTorch gives it") {
  CHECK(torch_segment_maker("torch_4711_1671486195_0") == 4711);
  CHECK(torch_segment_maker("torch_9_4294967295_18446744073709551615") == 9);
}

TEST_CASE("no other name tells a maker") {
  for (const char* name : {"",
                           "torch",
                           "torch_",
                           "torch_4711",
                           "torch_4711_99",
                           "torch_4711_99_",
                           "torch_4711_99_0_",
                           "torch_4711_99_0_1",
                           "torch_4711_99_0.pt",
                           "torch_-4711_99_0",
                           "torch_4711_-9_0",
                           "torch_+4711_9_0",
                           "torch_ 4711_99_0",
                           "torch_0x1_99_0",
                           "torch_4711_4294967296_0",
                           "xtorch_4711_99_0",
                           "torch__99_0",
                           "psm_4711",
                           "shard_4711.bin",
                           "torch_shard_4711_0",
                           "ddprun-abc-4711"}) {
    INFO(name);
    CHECK_FALSE(torch_segment_maker(name));
  }
}

TEST_CASE("the pids of a process in its namespaces are read from its status") {
  CHECK(namespace_pids("Name:\tsh\nNSpid:\t4711\t9\nNSpgid:\t4711\t9\n") == std::vector<pid_t>{4711, 9});
  CHECK(namespace_pids("NSpid:\t17") == std::vector<pid_t>{17});
  CHECK(namespace_pids("Name:\tsh\nPid:\t4711\n").empty());
  CHECK(namespace_pids("").empty());
}
