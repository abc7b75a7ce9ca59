#include "launcher/cleanup/resource_tracker.h"

#include "tests/support/catch.h"

#include <string_view>

using namespace ddprun::launcher;
using namespace std::string_view_literals;

TEST_CASE("Python's resource tracker and PyTorch's shared-memory manager are trackers") {
  CHECK(is_resource_tracker(
      "/usr/bin/python3\0-B\0-c\0from multiprocessing.resource_tracker import main;main(5)\0"sv));
  CHECK(is_resource_tracker("torch_shm_manager\0"sv));
  CHECK(is_resource_tracker("/opt/torch/bin/torch_shm_manager\0"sv));
}

TEST_CASE("other programs are not, whatever they are called with") {
  CHECK_FALSE(is_resource_tracker("/usr/bin/python3\0train.py\0torch_shm_manager\0"sv));
  CHECK_FALSE(is_resource_tracker("train\0from multiprocessing.resource_tracker import main\0"sv));
  CHECK_FALSE(is_resource_tracker("python3\0-c\0from multiprocessing.spawn import spawn_main\0"sv));
  CHECK_FALSE(is_resource_tracker(""sv));
}
