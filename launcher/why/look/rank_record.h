#pragma once

#include "launcher/why/facts/facts.h"
#include "launcher/why/look/memberships.h"
#include "launcher/why/look/process_memory.h"
#include "launcher/why/look/progress_look.h"

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <vector>

namespace ddprun::launcher::why {

/// What a process has written down of itself: its libtorch in flight recorders, its libddprun in a page.
class RankRecord {
 public:
  explicit RankRecord(pid_t pid) : pid_(pid), memory_(pid) {}

  /// Looks for what was not found yet, which a process that has just begun may have by now. Reads a few files.
  void search();
  /// Whether there is anything.
  [[nodiscard]] bool is_found() const { return page_ || !places_.recorders.empty(); }

  /// Whether the process itself has recorded anything. A child of fork begins with a copy of its parent's recorder:
  /// what is older than the process does not count.
  [[nodiscard]] bool has_own() const;

  /// The newest `most` collectives of each of these, merged().
  [[nodiscard]] Recorder read(std::size_t most) const;
  /// And before them those in which something in the background waits (read_lingering). Reads up to 4 MiB.
  [[nodiscard]] Recorder read_with_lingering(std::size_t most) const;
  /// The process groups that it is in, as far as that is known. To be asked after read(): what was begun there is then
  /// in what is told here. Reads up to 4 MiB of entries, and the names and ranks of up to 1024 groups.
  [[nodiscard]] std::vector<Membership> memberships() const;
  [[nodiscard]] RankProgress progress() const;
  [[nodiscard]] const ProcessMemory& memory() const { return memory_; }

 private:
  pid_t pid_;
  ProcessMemory memory_;
  GroupPlaces places_;
  std::optional<ProgressLook> page_;
};

/// What several recorders tell, by time: all that is not over, and of what is over all from that moment on before which
/// one of them may have had more. So nothing is missing between two of them. Pure.
Recorder merged(std::vector<Recorder> recorders);

}  // namespace ddprun::launcher::why
