#include "launcher/why/look/flight_recorder.h"

#include "tests/support/catch.h"

#include <array>
#include <cstring>
#include <string>
#include <vector>

using namespace ddprun::launcher::why;

namespace {

/// A memory that begins at an address, with a recorder of torch 2.11 in it.
class RecorderMemory {
 public:
  static constexpr std::uint64_t kBase = 0x10000;
  static constexpr std::size_t kEntries = 512;

  explicit RecorderMemory(std::size_t entries) : bytes_(kTexts + 4096) {
    put(0, kBase + kRecorder);
    put(kRecorder + 48, kBase + kEntries);
    put(kRecorder + 56, kBase + kEntries + entries * 512);
    put(kRecorder + 80, std::uint64_t{0});
    put(kRecorder + 88, std::uint64_t{entries});
  }

  void entry(std::size_t index, std::uint64_t id, const std::string& operation, bool is_over) {
    const std::size_t at = kEntries + index * 512;
    put(at, id);
    put_text(at + 56, "0");
    put(at + 88, std::int64_t(id) + 1);
    put_text(at + 112, operation);
    put(at + 176, std::int64_t{1000} + std::int64_t(id));
    put(at + 504, static_cast<unsigned char>(is_over));
  }
  void ring(std::uint64_t next, std::uint64_t id) {
    put(kRecorder + 80, next);
    put(kRecorder + 88, id);
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

  void put_text(std::size_t offset, const std::string& text) {
    std::memcpy(bytes_.data() + kTexts + texts_, text.data(), text.size());
    put(offset, kBase + kTexts + texts_);
    put(offset + 8, std::uint64_t{text.size()});
    texts_ += text.size();
  }

  std::vector<unsigned char> bytes_;
  std::size_t texts_ = 0;
};

}  // namespace

TEST_CASE("a flight recorder is read from memory, the oldest entry first") {
  RecorderMemory memory(3);
  memory.entry(0, 0, "gloo:all_reduce", true);
  memory.entry(1, 1, "gloo:barrier", true);
  memory.entry(2, 2, "gloo:all_reduce", false);
  const Recorder recorder = read_recorder(memory.reader(), RecorderMemory::kBase, 64);
  REQUIRE(recorder.is_there);
  CHECK(recorder.next == 3);
  REQUIRE(recorder.entries.size() == 3);
  CHECK(recorder.entries[1].operation == "barrier");
  CHECK(recorder.entries[2].sequence == 3);
  CHECK_FALSE(recorder.entries[2].is_over);
}

TEST_CASE("a send or receive is told from a collective") {
  RecorderMemory memory(2);
  memory.entry(0, 0, "nccl:all_reduce", true);
  memory.entry(1, 1, "nccl:recv 0<-1", false);
  memory.put(RecorderMemory::kEntries + 512 + 192, true);
  const Recorder recorder = read_recorder(memory.reader(), RecorderMemory::kBase, 64);
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
  const Recorder recorder = read_recorder(memory.reader(), RecorderMemory::kBase, 2);
  REQUIRE(recorder.entries.size() == 2);
  CHECK(recorder.entries[0].id == 3);
  CHECK(recorder.entries[1].operation == "broadcast");
}

TEST_CASE("a recorder that is laid out differently is told and not guessed at") {
  RecorderMemory memory(2);
  memory.entry(0, 0, "gloo:all_reduce", true);
  CHECK(read_recorder(memory.reader(), RecorderMemory::kBase, 64).problem ==
        "the flight recorder of this torch is laid out differently (an entry cannot be read)");
  memory.put(64 + 56, RecorderMemory::kBase + 513);
  CHECK(read_recorder(memory.reader(), RecorderMemory::kBase, 64).problem ==
        "the flight recorder of this torch is laid out differently (its head makes no sense)");
}

TEST_CASE("a process that has recorded nothing has an empty recorder") {
  RecorderMemory memory(0);
  memory.put(0, std::uint64_t{0});
  const Recorder recorder = read_recorder(memory.reader(), RecorderMemory::kBase, 64);
  CHECK(recorder.is_there);
  CHECK(recorder.entries.empty());
}
