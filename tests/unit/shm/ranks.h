#pragma once

#include "worker/runtime/comm/shm/group.h"

#include <exception>
#include <memory>
#include <thread>
#include <vector>

namespace ddprun::testing {

/// A small segment, so that tests cross its borders.
inline runtime::shm::SegmentShape small_shape(int size, std::size_t slot_bytes = 4096) {
  return {
      .size = size, .slot_bytes = slot_bytes, .channel_bytes = 4096, .arena_bytes = std::size_t{4} << 20U};
}

/// Runs `body(rank, segment)` once per rank, each on a thread of its own over one mapping, so that
/// ThreadSanitizer sees what ranks do to each other. The first exception of a rank is thrown again.
template <class Body>
void on_each_rank(const runtime::shm::SegmentShape& shape, const Body& body) {
  const std::shared_ptr<runtime::shm::Segment> segment = runtime::shm::Segment::create(shape).value();
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(shape.size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < shape.size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank, segment);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

/// The same with a Group joined by every rank: `body(group)`.
template <class Body>
void in_group(const runtime::shm::SegmentShape& shape, const Body& body) {
  on_each_rank(shape, [&](int rank, const std::shared_ptr<runtime::shm::Segment>& segment) {
    auto group = runtime::shm::Group::join(segment, rank, std::chrono::seconds(60)).value();
    body(*group);
  });
}

}  // namespace ddprun::testing
