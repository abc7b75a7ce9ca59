#pragma once

#include <ddprun/exception.h>
#include <ddprun/group.h>

#include <functional>
#include <optional>
#include <string>

namespace ddprun {

/// The error that all ranks of a group know of.
struct SharedError {
  int rank = 0;  ///< of the world: the lowest of the group that has one
  ErrorCode code = ErrorCode::kInternal;
  std::string message;   ///< in that rank's words
  bool is_mine = false;  ///< this rank has it: one of them tells the person
};

/// Every rank says what keeps it from going on, or nothing; all learn the same answer, so that none is left
/// waiting in the next collective for one that gave up. nullopt: all go on. Collective over `group`; on the
/// host but for the group's tensors of bytes (two all-gathers).
/// Errors  of the group itself: a peer is lost.
[[nodiscard]] std::optional<SharedError> agree_on_error(const Group& group,
                                                        const std::optional<Exception>& mine);

/// What a rank ends with that cannot go on because of another's error: kPeerLost, and "rank N failed first: ",
/// the other's words, and that this rank ended because of it. By that `ddprun` knows it for a consequence,
/// whichever of them ends first.
Exception consequence_of(const SharedError& error);

/// Runs `work`, which calls no collective, on every rank (opening files, reading data); where it throws on
/// one, all ranks throw: a rank's own exception where it has one, else consequence_of() the lowest rank's.
/// Exceptions other than ddprun's count as kInternal. Collective over `group`.
void fail_together(const Group& group, const std::function<void()>& work);

}  // namespace ddprun
