#pragma once

#include "rendezvous/base/progress_page.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string_view>

namespace ddprun::runtime {

/// Writes this process's ProgressPage. Threads: any. A child of fork writes where nobody looks.
class Progress {
 public:
  /// Made when first asked for, and never destroyed: threads of a backend may outlive main.
  static Progress& instance();

  /// A collective or message that begins.
  struct Call {
    std::string_view operation;  ///< up to 16 bytes
    std::int64_t sequence = 0;
    std::int64_t elements = 0;
    std::int16_t dtype = 0;  ///< of c10::ScalarType
    std::uint16_t group = 0;
    std::int32_t peer = ProgressPage::kNoPeer;
  };

  /// The number by which calls name the group, until it is removed. kNoGroup: there are too many at a time.
  std::uint16_t add_group(std::string_view name);
  void remove_group(std::uint16_t group);
  static constexpr std::uint16_t kNoGroup = ProgressPage::kGroups;
  /// Its id, for leave(); 0 where it is not told.
  std::uint64_t enter(const Call& call);
  void leave(std::uint64_t id);

  void note_step(std::int64_t step);
  /// A step begins, of a program that notes none itself.
  void count_step();
  void note_phase(std::string_view words);
  void note_progress() { page_.beats.fetch_add(1, std::memory_order_relaxed); }

 private:
  Progress();

  /// The id of a collective that begins, whose line this thread alone may write; 0: there was none to be had.
  std::uint64_t claim_line();

  ProgressPage& page_;
  std::mutex groups_mutex_;
  std::array<bool, ProgressPage::kGroups> is_taken_{};
  std::atomic<bool> is_step_noted_{false};
};

}  // namespace ddprun::runtime
