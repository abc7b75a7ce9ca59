#pragma once

namespace ddprun::testing {

/// As long as it lives no file of this program can be locked, as on a file system without locks.
class NoLocks {
 public:
  NoLocks();
  ~NoLocks();
  NoLocks(const NoLocks&) = delete;
  NoLocks& operator=(const NoLocks&) = delete;
};

}  // namespace ddprun::testing
