#include <ddprun/collectives.h>
#include <ddprun/fail_together.h>

#include <fmt/format.h>

#include <exception>
#include <vector>

namespace ddprun {
namespace {

Exception describe(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Exception& error) {
    return error;
  } catch (const std::exception& error) {
    return {ErrorCode::kInternal, error.what()};
  } catch (...) {
    return {ErrorCode::kInternal, "an exception of an unknown type"};
  }
}

}  // namespace

std::optional<SharedError> agree_on_error(const Group& group, const std::optional<Exception>& mine) {
  // One byte of code, then the message; empty when all is well.
  std::string bytes;
  if (mine) bytes = static_cast<char>(mine->code()) + std::string(mine->what());
  const std::vector<std::string> all = all_gather_bytes(group, bytes);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    const int owner = static_cast<int>(rank);
    return SharedError{.rank = group.global_rank(owner),
                       .code = static_cast<ErrorCode>(all[rank].front()),
                       .message = all[rank].substr(1),
                       .is_mine = owner == group.rank()};
  }
  return std::nullopt;
}

Exception consequence_of(const SharedError& error) {
  return {ErrorCode::kPeerLost,
          fmt::format("rank {} failed first: {}; this rank ended because of it", error.rank, error.message)};
}

void fail_together(const Group& group, const std::function<void()>& work) {
  std::exception_ptr thrown;
  try {
    work();
  } catch (...) {
    thrown = std::current_exception();
  }
  std::optional<SharedError> shared;
  try {
    shared = agree_on_error(group, thrown ? std::optional<Exception>(describe(thrown)) : std::nullopt);
  } catch (...) {
    if (!thrown) throw;  // else a peer that is lost hides what failed here
  }
  if (thrown) std::rethrow_exception(thrown);
  if (shared) throw consequence_of(*shared);
}

}  // namespace ddprun
