#include "launcher/why/look/flight_recorder.h"

#include "launcher/why/look/memberships.h"
#include "tests/support/catch.h"

#include <array>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun::launcher::why;

namespace {

/// A memory that begins at an address, with a recorder of torch 2.11 in it.
class RecorderMemory {
 public:
  static constexpr std::uint64_t kBase = 0x10000;
  static constexpr std::size_t kEntries = 512, kRegistry = 400;

  explicit RecorderMemory(std::size_t entries) : bytes_(kTexts + 4096) {
    put(0, kBase + kRecorder);
    put(kRecorder + 48, kBase + kEntries);
    put(kRecorder + 56, kBase + kEntries + entries * 512);
    put(kRecorder + 80, std::uint64_t{0});
    put(kRecorder + 88, std::uint64_t{entries});
  }

  void entry(std::size_t index, std::uint64_t id, const std::string& operation, bool is_over,
             const std::string& group = "0") {
    const std::size_t at = kEntries + index * 512;
    put(at, id);
    put_text(at + 56, group);
    put(at + 88, std::int64_t(id) + 1);
    put_text(at + 112, operation);
    put(at + 176, std::int64_t{1000} + std::int64_t(id));
    put(at + 504, static_cast<unsigned char>(is_over));
  }
  void ring(std::uint64_t next, std::uint64_t id) {
    put(kRecorder + 80, next);
    put(kRecorder + 88, id);
  }
  /// A group of Python's, in a node of a std::map: the next one hangs to its right.
  void register_group(const std::string& name) { put_text(add_node(kRegistry) + 32, name); }
  /// What NCCL and libddprun tell the recorder of a group.
  void tell_ranks(const std::string& name, const std::vector<std::uint64_t>& ranks) {
    const std::size_t node = add_node(kRecorder + 208);
    put_text(node + 32, "undefined");
    put_text(node + 64, name);
    const std::size_t at = kTexts + texts_;
    put(node + 96, kBase + at);
    put(node + 104, kBase + at + ranks.size() * 8);
    for (std::size_t i = 0; i < ranks.size(); ++i) put(at + i * 8, ranks[i]);
    texts_ += ranks.size() * 8;
  }
  [[nodiscard]] std::vector<Membership> memberships() const {
    return read_memberships(reader(), {.recorders = {{"gloo", kBase}}, .registry = kBase + kRegistry});
  }
  template <class T>
  void put(std::size_t offset, T value) {
    std::memcpy(bytes_.data() + offset, &value, sizeof value);
  }

  [[nodiscard]] ReadMemory reader() const {
    return [this](std::uint64_t address, void* into, std::size_t size) {
      if (address < kBase || address + size > kBase + bytes_.size()) return false;
      std::memcpy(into, bytes_.data() + (address - kBase), size);
      return true;
    };
  }

 private:
  static constexpr std::size_t kRecorder = 64, kTexts = kEntries + 8 * 512;

  std::size_t add_node(std::size_t map) {
    const std::size_t node = kTexts + 2048 + nodes_ * 128;
    const std::size_t parent = std::exchange(last_node_[map], node);
    ++nodes_;
    put(parent == 0 ? map + 16 : parent + 24, kBase + node);
    put(map + 40, ++sizes_[map]);
    return node;
  }
  void put_text(std::size_t offset, const std::string& text) {
    std::memcpy(bytes_.data() + kTexts + texts_, text.data(), text.size());
    put(offset, kBase + kTexts + texts_);
    put(offset + 8, std::uint64_t{text.size()});
    texts_ += text.size();
  }

  std::vector<unsigned char> bytes_;
  std::size_t texts_ = 0;
  std::size_t nodes_ = 0;
  std::map<std::size_t, std::size_t> last_node_;
  std::map<std::size_t, std::uint64_t> sizes_;
};

}  // namespace

TEST_CASE("a flight recorder is read from memory, the oldest entry first") {
  RecorderMemory memory(3);
  memory.entry(0, 0, "gloo:all_reduce", true);
  memory.entry(1, 1, "gloo:barrier", true);
  memory.entry(2, 2, "gloo:all_reduce", false);
  const Recorder recorder = read_recorder(memory.reader(), {"gloo", RecorderMemory::kBase}, 64);
  REQUIRE(recorder.is_there);
  CHECK(recorder.next == 3);
  REQUIRE(recorder.entries.size() == 3);
  CHECK(recorder.entries[1].operation == "barrier");
  CHECK(recorder.entries[2].sequence == 3);
  CHECK_FALSE(recorder.entries[2].is_over);
}

TEST_CASE("what a thread in the background waits in is found behind any number of later ones") {
  RecorderMemory memory(6);
  memory.entry(0, 0, "gloo:all_gather", false, "1");  // of a group that has gone on since
  memory.entry(1, 1, "gloo:all_gather", true, "1");
  memory.entry(2, 2, "gloo:broadcast", false, "2");
  memory.entry(3, 3, "gloo:all_reduce", true);
  memory.entry(4, 4, "gloo:all_reduce", true);
  memory.entry(5, 5, "gloo:barrier", false);
  const std::vector<Collective> found = read_lingering(memory.reader(), {"gloo", RecorderMemory::kBase}, 2);
  REQUIRE(found.size() == 1);
  CHECK(found[0].operation == "broadcast");
  CHECK(found[0].group == "2");
  CHECK(found[0].lingers);
  CHECK(read_lingering(memory.reader(), {"gloo", RecorderMemory::kBase}, 64).empty());
  CHECK(read_lingering(memory.reader(), {"nccl", RecorderMemory::kBase}, 2).empty());
}

TEST_CASE("each recorder tells of the groups what was done over its own backend") {
  RecorderMemory memory(3);
  memory.entry(0, 0, "gloo:all_reduce", true);
  memory.entry(1, 1, "gloo:broadcast", true);
  memory.entry(2, 2, "gloo:broadcast", true);
  memory.register_group("0");
  memory.put(8, std::uint64_t{0});  // NCCL has recorded nothing yet
  const GroupPlaces places{
      .recorders = {{"gloo", RecorderMemory::kBase}, {"nccl", RecorderMemory::kBase + 8}},
      .registry = RecorderMemory::kBase + RecorderMemory::kRegistry};
  const std::vector<Membership> groups = read_memberships(memory.reader(), places);
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].newest == std::map<std::string, std::int64_t>{{"gloo", 3}, {"nccl", 0}});
  CHECK(read_recorder(memory.reader(), places.recorders[0], 64).entries.back().backend == "gloo");
}

TEST_CASE("of a batch over NCCL the last entry alone tells whether it has ended") {
  RecorderMemory memory(4);
  memory.entry(0, 0, "nccl:all_reduce", true);
  memory.entry(1, 1, "nccl:send 0->1", false);
  memory.entry(2, 2, "nccl:recv 0<-1", false);
  memory.entry(3, 3, "nccl:coalesced", false);
  for (const std::size_t message : {1, 2}) memory.put(RecorderMemory::kEntries + message * 512 + 192, true);
  memory.put(RecorderMemory::kEntries + 3 * 512 + 168, std::uint64_t{0x5000});  // its event
  const Recorder open = read_recorder(memory.reader(), {"nccl", RecorderMemory::kBase}, 64);
  REQUIRE(open.entries.size() == 4);
  CHECK(open.entries[1].is_over);
  CHECK(open.entries[2].is_over);
  CHECK_FALSE(open.entries[3].is_over);
  CHECK(open.entries[3].is_peer);
  CHECK(open.entries[3].operation == "batch_isend_irecv");
}

TEST_CASE("a batch of collectives over NCCL is one collective") {
  RecorderMemory memory(2);
  memory.entry(0, 0, "nccl:_broadcast_oop", false);
  memory.entry(1, 1, "nccl:coalesced", false);
  memory.put(RecorderMemory::kEntries + 512 + 168, std::uint64_t{0x5000});
  const Recorder recorder = read_recorder(memory.reader(), {"nccl", RecorderMemory::kBase}, 64);
  CHECK(recorder.entries.at(0).is_over);
  CHECK_FALSE(recorder.entries.at(1).is_peer);
  CHECK_FALSE(recorder.entries.at(1).is_over);
}

TEST_CASE("what was captured in a CUDA graph is over when a later collective of its group is") {
  RecorderMemory memory(3);
  memory.entry(0, 0, "nccl:all_reduce", false);
  memory.entry(1, 1, "nccl:all_reduce", false, "1");
  memory.entry(2, 2, "nccl:all_reduce", true);
  for (std::size_t i = 0; i < 3; ++i)
    memory.put(RecorderMemory::kEntries + i * 512 + 168, std::uint64_t{0x5000});
  const Recorder recorder = read_recorder(memory.reader(), {"nccl", RecorderMemory::kBase}, 64);
  CHECK(recorder.entries.at(0).is_over);
  CHECK_FALSE(recorder.entries.at(1).is_over);
  // gloo's end in any order, and have no events.
  CHECK_FALSE(read_recorder(memory.reader(), {"gloo", RecorderMemory::kBase}, 64).entries.at(0).is_over);
}

TEST_CASE("a send or receive is told from a collective") {
  RecorderMemory memory(2);
  memory.entry(0, 0, "nccl:all_reduce", true);
  memory.entry(1, 1, "nccl:recv 0<-1", false);
  memory.put(RecorderMemory::kEntries + 512 + 192, true);
  const Recorder recorder = read_recorder(memory.reader(), {"gloo", RecorderMemory::kBase}, 64);
  REQUIRE(recorder.entries.size() == 2);
  CHECK_FALSE(recorder.entries[0].is_peer);
  CHECK(recorder.entries[1].is_peer);
  CHECK(recorder.entries[1].operation == "recv 0<-1");
}

TEST_CASE("of a full ring the newest entries are read, in their order") {
  RecorderMemory memory(3);
  memory.entry(0, 3, "gloo:all_reduce", true);
  memory.entry(1, 4, "gloo:broadcast", false);
  memory.entry(2, 2, "gloo:barrier", true);
  memory.ring(2, 5);
  const Recorder recorder = read_recorder(memory.reader(), {"gloo", RecorderMemory::kBase}, 2);
  REQUIRE(recorder.entries.size() == 2);
  CHECK(recorder.entries[0].id == 3);
  CHECK(recorder.entries[1].operation == "broadcast");
}

TEST_CASE("a recorder that is laid out differently is told and not guessed at") {
  RecorderMemory memory(2);
  memory.entry(0, 0, "gloo:all_reduce", true);
  CHECK(read_recorder(memory.reader(), {"gloo", RecorderMemory::kBase}, 64).problem ==
        "the flight recorder of this torch is laid out differently (an entry cannot be read)");
  memory.put(64 + 56, RecorderMemory::kBase + 513);
  CHECK(read_recorder(memory.reader(), {"gloo", RecorderMemory::kBase}, 64).problem ==
        "the flight recorder of this torch is laid out differently (its head makes no sense)");
}

TEST_CASE("a process that has recorded nothing has an empty recorder") {
  RecorderMemory memory(0);
  memory.put(0, std::uint64_t{0});
  const Recorder recorder = read_recorder(memory.reader(), {"gloo", RecorderMemory::kBase}, 64);
  CHECK(recorder.is_there);
  CHECK(recorder.entries.empty());
}

TEST_CASE("the groups of a process are told, used or not, with the number of the newest collective in them") {
  RecorderMemory memory(3);
  memory.entry(0, 0, "gloo:all_reduce", true, "1");
  memory.entry(1, 1, "gloo:barrier", false, "1");
  memory.entry(2, 2, "gloo:all_reduce", true, "of nobody");
  memory.register_group("0");
  memory.register_group("1");
  memory.tell_ranks("pairs", {7, 0, 2, 1});
  memory.tell_ranks("", {0, 1});
  const std::vector<Membership> groups = memory.memberships();
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].group == "0");
  CHECK(groups[0].newest.at("gloo") == 0);
  CHECK(groups[1].newest.at("gloo") == 2);
  CHECK(groups[1].ranks.empty());
  CHECK(groups[2].group == "pairs");
  CHECK(groups[2].ranks == "0-2,7");
}

TEST_CASE("where a name was another group's before, the newest number is that of the newest entry") {
  RecorderMemory memory(2);
  memory.entry(0, 0, "gloo:all_reduce", true);
  memory.put(RecorderMemory::kEntries + 88, std::int64_t{500});
  memory.entry(1, 1, "gloo:all_reduce", true);
  memory.register_group("0");
  CHECK(memory.memberships().at(0).newest.at("gloo") == 2);
}

TEST_CASE("where old entries may be lost, a group without any is not told") {
  RecorderMemory memory(3);
  for (std::size_t i = 0; i < 3; ++i) memory.entry(i, i + 2, "gloo:all_reduce", true);
  memory.ring(0, 5);
  memory.register_group("0");
  memory.register_group("1");
  const std::vector<Membership> groups = memory.memberships();
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].newest.at("gloo") == 5);
}

TEST_CASE("a map that makes no sense tells no groups, and the entries are read") {
  const auto groups_after = [](auto spoil) {
    RecorderMemory memory(1);
    memory.entry(0, 0, "gloo:all_reduce", true);
    memory.register_group("0");
    memory.register_group("1");
    memory.tell_ranks("2", {0, 1});
    spoil(memory);
    CHECK(read_recorder(memory.reader(), {"gloo", RecorderMemory::kBase}, 64).entries.size() == 1);
    return memory.memberships().size();
  };
  constexpr std::size_t kRegistry = RecorderMemory::kRegistry, kRanks = 64 + 208;
  constexpr std::uint64_t kNode = RecorderMemory::kBase + RecorderMemory::kEntries + 8 * 512 + 2048;
  CHECK(groups_after([](RecorderMemory&) {}) == 3);
  // It says that it has more, a node leads to itself, a node is nowhere, and so many are none of ours.
  CHECK(groups_after([](auto& memory) { memory.put(kRegistry + 40, std::uint64_t{3}); }) == 1);
  CHECK(groups_after([](auto& memory) { memory.put(kNode - RecorderMemory::kBase + 24, kNode); }) == 1);
  CHECK(groups_after([](auto& memory) { memory.put(kRanks + 16, std::uint64_t{8}); }) == 2);
  CHECK(groups_after([](auto& memory) { memory.put(kRanks + 40, ~std::uint64_t{0}); }) == 2);
  // Its vector ends before it begins.
  CHECK(groups_after([](auto& memory) {
          memory.put(kNode - RecorderMemory::kBase + 2 * 128 + 104, std::uint64_t{1});
        }) == 2);
}
