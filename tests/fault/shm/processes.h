#pragma once

#include "worker/runtime/comm/shm/group.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::testing {

/// Ranks as processes: each opens the segment by its address and joins, then runs `body(group)`, whose text
/// it hands to the parent. Processes that the test has not ended are killed at the end.
class RankProcesses {
 public:
  /// What a rank says at its end, and when (steady clock).
  struct Report {
    std::string text;
    std::chrono::steady_clock::time_point when;
  };

  template <class Body>
  RankProcesses(int size, const Body& body)
      : segment_(
            runtime::shm::Segment::create({.size = size, .arena_bytes = std::size_t{64} << 20U}).value()) {
    const auto address = segment_->address().value();
    for (int rank = 0; rank < size; ++rank) spawn(rank, address, body);
  }

  ~RankProcesses() {
    for (std::size_t rank = 0; rank < pids_.size(); ++rank) {
      ::kill(pids_[rank], SIGKILL);
      ::waitpid(pids_[rank], nullptr, 0);
      ::close(pipes_[rank]);
    }
  }
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  [[nodiscard]] pid_t pid(int rank) const { return pids_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] runtime::shm::Segment& segment() { return *segment_; }

  /// Returns once the rank has arrived at the barrier `ticket`.
  void wait_until_at(int rank, std::uint64_t ticket) const {
    while (segment_->post(rank, ticket).ticket.load() < ticket) ::sched_yield();
  }

  /// Waits for the rank's report.
  Report report(int rank) {
    Report report{};
    std::array<char, 1200> text{};
    const int pipe = pipes_[static_cast<std::size_t>(rank)];
    read_all(pipe, &report.when, sizeof(report.when));
    read_all(pipe, text.data(), text.size());
    report.text = text.data();
    return report;
  }

 private:
  static void read_all(int fd, void* data, std::size_t bytes) {
    std::size_t got = 0;
    while (got < bytes) {
      const ssize_t more = ::read(fd, static_cast<char*>(data) + got, bytes - got);
      if (more <= 0) throw std::runtime_error("a rank ended without a report");
      got += static_cast<std::size_t>(more);
    }
  }

  template <class Body>
  void spawn(int rank, const runtime::shm::SegmentAddress& address, const Body& body) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
    const pid_t pid = ::fork();
    if (pid == 0) {
      const std::string text = run(rank, address, body);
      const auto when = std::chrono::steady_clock::now();
      std::array<char, 1200> padded{};
      text.copy(padded.data(), padded.size() - 1);
      const bool good = ::write(ends[1], &when, sizeof(when)) == static_cast<ssize_t>(sizeof(when)) &&
                        ::write(ends[1], padded.data(), padded.size()) == static_cast<ssize_t>(padded.size());
      ::_exit(good ? 0 : 1);
    }
    ::close(ends[1]);
    pids_.push_back(pid);
    pipes_.push_back(ends[0]);
  }

  template <class Body>
  static std::string run(int rank, const runtime::shm::SegmentAddress& address, const Body& body) {
    try {
      auto segment = runtime::shm::Segment::open(address).value();
      auto group = runtime::shm::Group::join(segment, rank, std::chrono::seconds(60)).value();
      return body(*group);
    } catch (const std::exception& error) {
      return error.what();
    }
  }

  std::shared_ptr<runtime::shm::Segment> segment_;
  std::vector<pid_t> pids_;
  std::vector<int> pipes_;
};

}  // namespace ddprun::testing
