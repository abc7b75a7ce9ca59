#include "worker/runtime/checkpoint/kept_file.h"

#include "rendezvous/base/env_contract.h"
#include "tests/support/catch.h"
#include "tests/unit/checkpoint/temporary_folder.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <torch/types.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <vector>

using namespace ddprun;
using ddprun::testing::TemporaryFolder;
using runtime::KeptFile;
using runtime::KeptTensors;

namespace {

/// A file of memory, as the launcher has one.
class Memory {
 public:
  Memory() : fd_(::memfd_create(kKeptMemoryName, MFD_CLOEXEC)) {}
  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }

 private:
  UniqueFd fd_;
};

/// Tensors of a size each, and full of a number.
PtDict value_of(std::int64_t number, std::int64_t elements) {
  PtDict dict;
  dict.set("number", number);
  dict.set("small", at::full({3}, static_cast<float>(number)));
  dict.set("large", at::full({elements}, static_cast<double>(number)));
  return dict;
}

/// Of a whole value.
std::optional<std::int64_t> number_in(const KeptFile& file) {
  if (file.bytes().empty()) {
    CHECK(file.label().empty());
    return std::nullopt;
  }
  const PtDict value = KeptFile::parse(file.bytes()).value().as_dict();
  const std::int64_t number = value.at("number").as_int();
  CHECK(file.label() == std::to_string(number));
  CHECK(value.at("small").as_tensor().eq(number).all().item<bool>());
  CHECK(value.at("large").as_tensor().eq(number).all().item<bool>());
  return number;
}

/// A process that makes a writer of values, and is killed while it writes one of those after `count`.
template <class MakeWriter>
void kill_in_a_write_after(int count, MakeWriter make_writer) {
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  const pid_t process = ::fork();
  if (process == 0) {
    auto write = make_writer();
    const std::byte byte{};
    for (std::int64_t number = 1;; ++number) {
      write(number);
      if (::write(pipe[1], &byte, 1) < 0) ::_exit(1);
    }
  }
  ::close(pipe[1]);
  std::byte byte{};
  for (int i = 0; i < count; ++i) REQUIRE(::read(pipe[0], &byte, 1) == 1);
  ::kill(process, SIGKILL);
  int status = 0;
  REQUIRE(::waitpid(process, &status, 0) == process);
  ::close(pipe[0]);
}

}  // namespace

TEST_CASE("a kept file holds the value that was written last, larger or smaller than the one before") {
  const Memory memory;
  KeptFile file = KeptFile::open(memory.path()).value();
  CHECK_FALSE(number_in(file));
  std::int64_t number = 0;
  for (const std::int64_t elements : {100, 5000, 0, 100}) {
    ++number;
    REQUIRE(file.write(std::to_string(number), value_of(number, elements)).has_value());
    CHECK_FALSE(number_in(file));
    file.confirm();
    CHECK(number_in(file) == number);
    CHECK(number_in(KeptFile::open(memory.path()).value()) == number);
  }
  file.clear();
  CHECK_FALSE(number_in(file));
  CHECK_FALSE(number_in(KeptFile::open(memory.path()).value()));
}

TEST_CASE("a kept file whose writer is killed in any moment holds a whole value or none") {
  int whole = 0;
  int none = 0;
  for (int round = 0; round < 60; ++round) {
    const Memory memory;
    kill_in_a_write_after(3 + round, [&] {
      return [file = KeptFile::open(memory.path()).value()](std::int64_t number) mutable {
        static_cast<void>(file.write(std::to_string(number), value_of(number, 1000 + 7000 * (number % 3))));
        file.confirm();
      };
    });
    const auto number = number_in(KeptFile::open(memory.path()).value());
    if (number) {
      CHECK(*number >= 3 + round);
    }
    ++(number ? whole : none);
  }
  INFO(whole << " whole, " << none << " none");
  CHECK(whole > 0);
}

TEST_CASE(
    "tensors that live in kept memory are there as they are, and all that shares their memory follows them") {
  const Memory memory, tensors;
  at::Tensor large = at::arange(5000).to(at::kFloat);
  const at::Tensor view = large.view({50, 100}).select(0, 7);
  at::Tensor small = at::zeros({3});
  KeptTensors kept = KeptTensors::open(tensors.path()).value();
  CHECK(kept.would_adopt(large));
  CHECK_FALSE(kept.would_adopt(small));
  REQUIRE(kept.adopt({large, view, small, large}).has_value());
  CHECK_FALSE(kept.would_adopt(view));
  REQUIRE(kept.place_of(large.const_data_ptr()));
  CHECK_FALSE(kept.place_of(small.const_data_ptr()));
  CHECK(view.equal(at::arange(700, 800).to(at::kFloat)));

  PtDict value;
  value.set("large", large);
  value.set("small", small);
  KeptFile file = KeptFile::open(memory.path()).value();
  REQUIRE(file.write("7", value, &kept).has_value());
  file.confirm();
  view.fill_(-1);
  small.fill_(5);
  const KeptFile later = KeptFile::open(memory.path()).value();
  const KeptTensors theirs = KeptTensors::open(tensors.path()).value();
  CHECK(later.bytes().size() < 4096);
  const PtDict read = KeptFile::parse(later.bytes(), theirs.bytes().value().bytes()).value().as_dict();
  CHECK(read.at("large").as_tensor().equal(large));
  CHECK(read.at("large").as_tensor()[750].item<float>() == -1);
  CHECK(read.at("small").as_tensor().equal(at::zeros({3})));
  CHECK_FALSE(KeptFile::parse(later.bytes()).has_value());
  CHECK_FALSE(KeptFile::parse(later.bytes(), theirs.bytes().value().bytes().first(4096)).has_value());

  // Others come to them, and some leave.
  at::Tensor more = at::ones({2000});
  REQUIRE(kept.adopt({large, more}).has_value());
  const std::optional<std::uint64_t> place = kept.place_of(more.const_data_ptr());
  REQUIRE(place);
  CHECK(*place >= 5000 * sizeof(float));
  kept.release(more);
  CHECK_FALSE(kept.place_of(more.const_data_ptr()));
  CHECK(more.equal(at::ones({2000})));

  // They outlive the object that moved them.
  at::Tensor copy = large.clone();
  { const KeptTensors last = std::move(kept); }
  CHECK(large.add_(1).equal(copy.add_(1)));
}

TEST_CASE("who is killed while tensors in kept memory change leaves them whole or leaves nothing") {
  int whole = 0;
  int none = 0;
  for (int round = 0; round < 40; ++round) {
    const Memory memory, tensors;
    kill_in_a_write_after(3 + round, [&] {
      KeptTensors kept = KeptTensors::open(tensors.path()).value();
      const PtDict value = value_of(0, 20000);
      static_cast<void>(kept.adopt({value.at("large").as_tensor()}));
      return [file = KeptFile::open(memory.path()).value(), kept = std::move(kept),
              value](std::int64_t number) mutable {
        file.clear();
        PtDict now;
        now.set("number", number);
        now.set("small", value.at("small").as_tensor().fill_(number));
        now.set("large", value.at("large").as_tensor().fill_(number));
        static_cast<void>(file.write(std::to_string(number), now, &kept));
        file.confirm();
      };
    });
    const KeptFile left = KeptFile::open(memory.path()).value();
    const KeptTensors kept = KeptTensors::open(tensors.path()).value();
    if (!left.bytes().empty()) {
      const PtDict value = KeptFile::parse(left.bytes(), kept.bytes().value().bytes()).value().as_dict();
      const std::int64_t number = value.at("number").as_int();
      CHECK(number >= 3 + round);
      CHECK(value.at("large").as_tensor().eq(number).all().item<bool>());
      CHECK(value.at("small").as_tensor().eq(number).all().item<bool>());
    }
    ++(left.bytes().empty() ? none : whole);
  }
  INFO(whole << " whole, " << none << " none");
  CHECK(whole > 0);
}

TEST_CASE("what is kept is refused where it is cut off or its numbers are wrong") {
  const Memory memory;
  KeptFile file = KeptFile::open(memory.path()).value();
  REQUIRE(file.write("1", value_of(1, 100)).has_value());
  file.confirm();
  const std::span<const std::byte> bytes = file.bytes();
  for (std::size_t size = 0; size < bytes.size(); size += 8)
    CHECK_FALSE(KeptFile::parse(bytes.first(size)).has_value());
  for (const std::size_t place : {8, 16, 24}) {
    for (const std::byte wrong : {std::byte{0xff}, std::byte{0x7f}}) {
      alignas(64) std::vector<std::byte> copy(bytes.begin(), bytes.end());
      for (std::size_t i = 0; i < 8; ++i) copy[place + i] = wrong;
      CHECK_FALSE(KeptFile::parse(copy).has_value());
    }
  }
}

TEST_CASE(
    "a kept file that is not there, or is another program's, is refused with its name, and left alone") {
  const TemporaryFolder folder;
  const std::string other = folder.file("other");
  std::ofstream(other) << "other";
  const Result<KeptFile> others = KeptFile::open(other);
  REQUIRE_FALSE(others.has_value());
  CHECK(others.error().message() == other + " is not memory that ddprun holds");
  CHECK(std::filesystem::file_size(other) == 5);
  const Result<KeptFile> file = KeptFile::open(folder.file("none"));
  REQUIRE_FALSE(file.has_value());
  CHECK(file.error().code() == ErrorCode::kNotFound);
  CHECK(file.error().message() == "there is no " + folder.file("none"));
}
