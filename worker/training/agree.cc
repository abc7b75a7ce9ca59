#include "worker/training/agree.h"

#include <ddprun/collectives.h>

#include <vector>

namespace ddprun::training {

std::optional<Verdict> agree(const Group& group, const std::optional<Error>& mine) {
  // One byte of code, then the message; empty when all is well.
  std::string bytes;
  if (mine) bytes = static_cast<char>(mine->code()) + mine->message();
  const std::vector<std::string> all = all_gather_bytes(group, bytes);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    Error error(static_cast<ErrorCode>(all[rank].front()), all[rank].substr(1));
    const int owner = static_cast<int>(rank);
    return Verdict{std::move(error), owner, owner == group.rank()};
  }
  return std::nullopt;
}

}  // namespace ddprun::training
