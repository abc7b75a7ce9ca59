#include "worker/runtime/process/memory/block_pool.h"

#include "tests/support/catch.h"

#include <cstdint>
#include <cstring>
#include <vector>

using ddprun::runtime::BlockPool;

TEST_CASE("a block holds what was asked for, and at most a quarter more") {
  for (std::size_t bytes = BlockPool::kSmallest; bytes < (std::size_t{64} << 20U); bytes += 1 + bytes / 7) {
    const std::size_t size = BlockPool::block_size(bytes);
    CHECK(size >= bytes);
    CHECK(size <= bytes + bytes / 4 + BlockPool::kAlignment);
    CHECK(size % BlockPool::kAlignment == 0);
    CHECK(BlockPool::block_size(size) == size);
  }
}

TEST_CASE("the block that was freed last is handed out first, with what was in it") {
  BlockPool pool;
  std::byte* const first = pool.allocate(100000);
  std::byte* const second = pool.allocate(100000);
  CHECK(reinterpret_cast<std::uintptr_t>(first) % BlockPool::kAlignment == 0);
  std::memset(second, 7, 100000);
  CHECK(pool.free(first));
  CHECK(pool.free(second));
  std::byte* const third = pool.allocate(100001);
  CHECK(third == second);
  CHECK(third[99999] == std::byte{7});
}

TEST_CASE("blocks do not overlap") {
  BlockPool pool;
  std::vector<std::byte*> blocks;
  const std::vector<std::size_t> sizes{70000, 40U << 20U, 100000, 5U << 20U, 30U << 20U, 65536};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    blocks.push_back(pool.allocate(sizes[i]));
    std::memset(blocks[i], static_cast<int>(i), sizes[i]);
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    CHECK(blocks[i][0] == static_cast<std::byte>(i));
    CHECK(blocks[i][sizes[i] - 1] == static_cast<std::byte>(i));
  }
}

TEST_CASE("no more is kept idle than was ever in use at once, and what was used last is kept") {
  BlockPool pool;
  std::vector<std::byte*> small, large;
  for (int i = 0; i < 4; ++i) small.push_back(pool.allocate(std::size_t{1} << 20U));
  std::memset(small[0], 1, std::size_t{1} << 20U);
  for (std::byte* const block : small) pool.free(block);
  for (int i = 0; i < 2; ++i) large.push_back(pool.allocate(std::size_t{2} << 20U));
  std::memset(large[0], 2, std::size_t{2} << 20U);
  std::memset(large[1], 2, std::size_t{2} << 20U);
  for (std::byte* const block : large) pool.free(block);
  CHECK(pool.usage().used == 0);
  CHECK(pool.usage().peak == std::size_t{4} << 20U);
  CHECK(pool.usage().idle == pool.usage().peak);
  CHECK(small[0][0] == std::byte{0});  // back to the kernel
  CHECK(large[0][0] == std::byte{2});
  CHECK(pool.allocate(std::size_t{2} << 20U) == large[1]);
}

TEST_CASE("memory of others is not taken") {
  BlockPool pool;
  std::byte other{};
  CHECK_FALSE(pool.free(&other));
}
