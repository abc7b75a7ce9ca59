#pragma once

#include <ddprun/checkpoint.h>
#include <ddprun/exception.h>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun::runtime {

/// So often somebody else may remove what was just listed.
inline constexpr int kMostListings = 100;

/// What `read(entry)`, an optional, gives of the first entry of `list()` of which it gives something. Another process
/// may write and remove checkpoints meanwhile: where `read` throws kNotFound it lists again, and that there is
/// nothing it says only after two equal listings. An entry of which `read` gives nothing it is not asked for again.
/// Errors  what `list` and `read` throw; kNotFound: the folder did not come to rest in kMostListings listings.
template <class List, class Read>
auto first_of_live_folder(List&& list, Read&& read) {
  using Entries = std::vector<CheckpointDirectory::Entry>;
  using Found = decltype(read(CheckpointDirectory::Entry()));
  const auto are_same = [](const auto& one, const auto& other) { return one.path == other.path; };
  std::set<std::string> passed;
  std::optional<Entries> before;
  std::string gone;
  for (int i = 0; i < kMostListings; ++i) {
    const Entries entries = list();
    bool is_whole = true;
    for (auto entry = entries.begin(); entry != entries.end() && is_whole; ++entry) {
      if (passed.contains(entry->path)) continue;
      try {
        if (Found found = read(*entry)) return found;
        passed.insert(entry->path);
      } catch (const Exception& exception) {
        if (exception.code() != ErrorCode::kNotFound) throw;
        gone = exception.what();
        is_whole = false;
      }
    }
    if (is_whole && before && std::ranges::equal(*before, entries, are_same)) return Found();
    before = entries;
  }
  throw Exception(
      ErrorCode::kNotFound,
      fmt::format("the checkpoints of a folder were others each of the {} times that it was listed{}{}; "
                  "is a job writing there?",
                  kMostListings, gone.empty() ? "" : ", the last time: ", gone));
}

}  // namespace ddprun::runtime
