#include "launcher/why/look/flight_recorder.h"

#include "launcher/why/look/recorder_layout.h"
#include "launcher/why/look/standard_types.h"
#include "launcher/why/look/symbols.h"
#include "rendezvous/base/read_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <string_view>

namespace ddprun::launcher::why {
namespace {

using EntryBytes = std::array<unsigned char, kEntry>;

/// c10::SmallVector<int64_t>.
std::vector<std::int64_t> read_numbers(const ReadMemory& memory, const EntryBytes& entry,
                                       std::size_t offset) {
  constexpr std::uint32_t kMost = 64;
  std::vector<std::int64_t> numbers(std::min(value_at<std::uint32_t>(entry, offset + 8), kMost));
  if (!numbers.empty() &&
      !memory(value_at<std::uint64_t>(entry, offset), numbers.data(), numbers.size() * sizeof(std::int64_t)))
    numbers.clear();
  return numbers;
}

/// Of the inputs, one after the other; those of the outputs lie behind them.
std::vector<std::int64_t> read_sizes(const ReadMemory& memory, const EntryBytes& entry) {
  std::vector<std::int64_t> sizes = read_numbers(memory, entry, kEntrySizes);
  std::int64_t wanted = 0;
  for (const std::int64_t dimensions : read_numbers(memory, entry, kEntryDimensions)) wanted += dimensions;
  if (wanted > 0 && static_cast<std::size_t>(wanted) < sizes.size())
    sizes.resize(static_cast<std::size_t>(wanted));
  return sizes;
}

/// std::vector<c10::ScalarType>, which are bytes.
std::vector<int> read_types(const ReadMemory& memory, const EntryBytes& entry) {
  constexpr std::uint64_t kMost = 64;
  const auto begin = value_at<std::uint64_t>(entry, kEntryInputTypes);
  const auto end = value_at<std::uint64_t>(entry, kEntryInputTypes + 8);
  if (end < begin || end - begin > kMost) return {};
  std::vector<signed char> bytes(end - begin);
  if (!bytes.empty() && !memory(begin, bytes.data(), bytes.size())) return {};
  return {bytes.begin(), bytes.end()};
}

/// "gloo:all_reduce" is "all_reduce".
std::string operation_name(const std::string& profiling_name) {
  const std::size_t colon = profiling_name.rfind(':');
  return colon == std::string::npos ? profiling_name : profiling_name.substr(colon + 1);
}

struct Entry {
  Collective collective;
  bool has_end = true;  ///< false: no event tells of its end
};

std::optional<Entry> read_entry(const ReadMemory& memory, std::uint64_t address, const std::string& backend) {
  EntryBytes entry{};
  EntryBytes again{};
  // Twice, because its rank may be writing it.
  for (int attempt = 0; attempt < 3; ++attempt) {
    if (!memory(address, entry.data(), kEntry) || !memory(address, again.data(), kEntry)) return std::nullopt;
    if (entry == again) break;
  }
  const std::optional<std::string> group = read_string(memory, entry, kEntryGroup);
  const std::optional<std::string> operation = read_string(memory, entry, kEntryOperation);
  if (!group || !operation || operation->empty()) return std::nullopt;
  return Entry{.collective = {.group = *group,
                              .backend = backend,
                              .sequence = value_at<std::int64_t>(entry, kEntrySequence),
                              .id = value_at<std::uint64_t>(entry, kEntryId),
                              .operation = operation_name(*operation),
                              .is_peer = value_at<unsigned char>(entry, kEntryIsPeer) != 0,
                              .sizes = read_sizes(memory, entry),
                              .types = read_types(memory, entry),
                              .created_ns = value_at<std::int64_t>(entry, kEntryCreated),
                              .is_over = value_at<unsigned char>(entry, kEntryRetired) != 0},
               .has_end = value_at<std::uint64_t>(entry, kEntryEnd) != 0};
}

/// What ProcessGroupNCCL records otherwise than gloo does. `entries` are in order.
void read_as_nccl(std::vector<Entry>& entries) {
  // A batch has an entry for each operation, of whose end nothing tells, and a last one, "coalesced", which does. Of
  // messages it has the number of the last collective.
  std::map<std::string, bool> is_message;  // by group: the entry before
  for (Entry& entry : entries) {
    Collective& collective = entry.collective;
    const auto before = is_message.find(collective.group);
    if (collective.operation == "coalesced" && before != is_message.end() && before->second) {
      collective.operation = "batch_isend_irecv";
      collective.is_peer = true;
    }
    is_message[collective.group] = collective.is_peer;
  }
  // A group's collectives end in their order, one after the other on its stream; what was captured in a CUDA graph is
  // never said to have ended.
  std::set<std::string> ended;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    Collective& collective = entry->collective;
    if (!collective.is_peer && collective.is_over) ended.insert(collective.group);
    if (!entry->has_end || (!collective.is_peer && ended.contains(collective.group)))
      collective.is_over = true;
  }
}

Recorder unknown(std::string_view what) {
  return {.is_there = false,
          .problem = fmt::format("the flight recorder of this torch is laid out differently ({})", what),
          .next = 0,
          .entries = {}};
}

struct LoadedFile {
  std::uint64_t base = 0;
  std::string path;
};

/// Where a library is loaded; empty path: it is not.
LoadedFile loaded_file(const std::string& maps, std::string_view name) {
  std::istringstream lines(maps);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t slash = line.find('/');
    if (slash == std::string::npos) continue;
    const std::string path = line.substr(slash);
    if (!path.ends_with(name)) continue;
    // The first mapping of a file is that of its first bytes.
    return {.base = std::strtoull(line.c_str(), nullptr, 16), .path = path};
  }
  return {};
}

}  // namespace

GroupPlaces find_recorders(pid_t pid) {
  const std::string maps = read_text(fmt::format("/proc/{}/maps", pid));
  const auto address = [&](std::string_view library, const std::string& symbol) -> std::uint64_t {
    const LoadedFile loaded = loaded_file(maps, library);
    if (loaded.path.empty()) return 0;
    const auto value = symbol_value(fmt::format("/proc/{}/root{}", pid, loaded.path), symbol);
    return value ? loaded.base + *value : 0;
  };
  GroupPlaces found{.recorders = {}, .registry = address("/libtorch_cpu.so", "_ZN4c10dL16process_registryE")};
  for (RecorderPlace place :
       {RecorderPlace{"gloo",
                      address("/libtorch_cpu.so", "_ZZN4c10d14FlightRecorderIN3c105EventEE3getEvE8instance")},
        RecorderPlace{std::string(kNccl),
                      address("/libtorch_cuda.so",
                              "_ZZN4c10d14FlightRecorderIN3c104cuda9CUDAEventEE3getEvE8instance")}}) {
    if (place.instance != 0) found.recorders.push_back(std::move(place));
  }
  return found;
}

RecorderHead read_recorder_head(const ReadMemory& memory, std::uint64_t instance) {
  constexpr std::uint64_t kMostEntries = 1'000'000;
  RecorderHead head;
  if (!memory(instance, &head.recorder, sizeof head.recorder)) return {.problem = "no pointer to it"};
  if (head.recorder == 0) return head;
  std::array<unsigned char, kRecorderHead> bytes{};
  if (!memory(head.recorder, bytes.data(), bytes.size())) return {.problem = "its head cannot be read"};
  const auto end = value_at<std::uint64_t>(bytes, kRecorderEnd);
  head.begin = value_at<std::uint64_t>(bytes, kRecorderBegin);
  head.next = value_at<std::uint64_t>(bytes, kRecorderNext);
  head.id = value_at<std::uint64_t>(bytes, kRecorderId);
  head.count = (end - head.begin) / kEntry;
  if (end < head.begin || (end - head.begin) % kEntry != 0 || head.count > kMostEntries ||
      head.next > head.count || head.id < head.count)
    return {.problem = "its head makes no sense"};
  return head;
}

Recorder read_recorder(const ReadMemory& memory, const RecorderPlace& place, std::size_t most) {
  const RecorderHead head = read_recorder_head(memory, place.instance);
  if (!head.problem.empty()) return unknown(head.problem);
  Recorder result{.is_there = true, .problem = {}, .next = head.id, .entries = {}};
  std::vector<Entry> entries;
  for (std::uint64_t back = std::min<std::uint64_t>(head.count, most); back > 0; --back) {
    std::optional<Entry> entry = read_entry(memory, head.entry(back), place.backend);
    if (!entry) return unknown("an entry cannot be read");
    entries.push_back(std::move(*entry));
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.collective.id < b.collective.id; });
  if (place.backend == kNccl) read_as_nccl(entries);
  for (Entry& entry : entries) result.entries.push_back(std::move(entry.collective));
  return result;
}

std::vector<Collective> read_lingering(const ReadMemory& memory, const RecorderPlace& place,
                                       std::size_t most) {
  constexpr std::uint64_t kMostLookedAt = 8192;
  std::vector<Collective> found;
  const RecorderHead head = read_recorder_head(memory, place.instance);
  if (place.backend == kNccl || !head.problem.empty() || head.recorder == 0) return found;
  std::set<std::string> seen;
  for (std::uint64_t back = 1; back <= std::min(head.count, kMostLookedAt); ++back) {
    EntryBytes entry{};
    if (!memory(head.entry(back), entry.data(), entry.size())) break;
    const std::optional<std::string> group = read_string(memory, entry, kEntryGroup);
    if (!group || value_at<unsigned char>(entry, kEntryIsPeer) != 0 || !seen.insert(*group).second) continue;
    if (back <= most || value_at<unsigned char>(entry, kEntryRetired) != 0) continue;
    std::optional<Entry> whole = read_entry(memory, head.entry(back), place.backend);
    if (!whole || whole->collective.is_over || whole->collective.group != *group) continue;
    whole->collective.lingers = true;
    found.push_back(std::move(whole->collective));
  }
  std::reverse(found.begin(), found.end());
  return found;
}

}  // namespace ddprun::launcher::why
