#include "worker/runtime/checkpoint/safetensors.h"

#include "tests/support/catch.h"
#include "tests/support/file_content.h"
#include "tests/unit/checkpoint/temporary_folder.h"
#include <ddprun/exception.h>
#include <ddprun/pt_file.h>

#include <torch/types.h>

#include <cstring>
#include <fstream>

using namespace ddprun;
using namespace ddprun::runtime;
using ddprun::testing::TemporaryFolder;

namespace {

std::span<const std::byte> raw_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string file_of(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string content(sizeof length, '\0');
  std::memcpy(content.data(), &length, sizeof length);
  return content + header + data;
}

std::string why_not(const std::string& content) {
  const auto state = read_safetensors(raw_bytes(content));
  return state ? "it is read" : state.error().message();
}

PtDict some_state() {
  PtDict state;
  state.set("weight", torch::arange(6, torch::kFloat).view({2, 3}));
  state.set("count", torch::tensor(7));
  state.set("half", torch::ones({3}, torch::kHalf));
  state.set("yes", torch::tensor({true, false}));
  state.set("none", torch::empty({0, 4}));
  state.set("odd", torch::ones({3}, torch::kByte));
  return state;
}

}  // namespace

TEST_CASE("what is written as safetensors is read, whatever the file is called") {
  const TemporaryFolder folder;
  const PtDict state = some_state();
  save_safetensors(folder.file("a.bin"), state);
  const PtValue read = load_pt_or_safetensors(folder.file("a.bin"));
  CHECK(read.as_dict().entries.size() == state.entries.size());
  for (const auto& [name, value] : state.entries) {
    const at::Tensor& tensor = read.as_dict().at(name.as_string()).as_tensor();
    CHECK(tensor.equal(value.as_tensor()));
    CHECK(tensor.scalar_type() == value.as_tensor().scalar_type());
  }
  save_pt(folder.file("b.safetensors"), state);
  CHECK(load_pt_or_safetensors(folder.file("b.safetensors")).as_dict().at("count").as_tensor().item<int>() ==
        7);
}

TEST_CASE("safetensors cut anywhere are refused") {
  const TemporaryFolder folder;
  save_safetensors(folder.file("a"), some_state());
  const std::string whole = file_content(folder.file("a"));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto state = read_safetensors(raw_bytes(whole.substr(0, size)));
    if (state || state.error().code() != ErrorCode::kCorrupt) FAIL(size);
  }
  CHECK(why_not(whole + "x") == "1 bytes are of no tensor");
  std::ofstream(folder.file("short"), std::ios::binary) << whole.substr(0, whole.size() - 1);
  CHECK_THROWS_AS(load_pt_or_safetensors(folder.file("short")), Exception);
  std::ofstream(folder.file("cut.safetensors"), std::ios::binary) << whole.substr(0, 5);
  CHECK_THROWS_WITH(load_pt_or_safetensors(folder.file("cut.safetensors")),
                    Catch::EndsWith("cut.safetensors: it does not begin like safetensors"));
}

TEST_CASE("safetensors are refused with what is wrong with them") {
  const auto one = [](const std::string& about, std::size_t bytes = 4) {
    return why_not(file_of("{\"a\":" + about + "}", std::string(bytes, '\0')));
  };
  CHECK(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})") == "it is read");
  CHECK(why_not(file_of("[]", "")) == "it does not begin like safetensors");
  CHECK(why_not(file_of("{", "")) == "its header is not JSON");
  CHECK(why_not(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{", 9)) == "it does not begin like safetensors");
  CHECK(one("7") == "a: dtype, shape or data_offsets are missing");
  CHECK(one(R"({"dtype":"F33","shape":[1],"data_offsets":[0,4]})") ==
        "a: the dtype is \"F33\", which is not known");
  CHECK(one(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})") ==
        "a: shape or data_offsets are no lists of sizes");
  CHECK(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0]})") ==
        "a: shape or data_offsets are no lists of sizes");
  CHECK(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})") ==
        "a: the bytes 0 to 4 are not what its shape needs");
  CHECK(one(R"({"dtype":"F32","shape":[4611686018427387904,4611686018427387904],"data_offsets":[0,4]})") ==
        "a: the bytes 0 to 4 are not what its shape needs");
  CHECK(one(R"({"dtype":"F32","shape":[0,4611686018427387904,4611686018427387904],"data_offsets":[0,0]})",
            0) == "a: the bytes 0 to 0 are not what its shape needs");
  CHECK(one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})") ==
        "a: the bytes 4 to 0 are not what its shape needs");
  CHECK(one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})", 8) ==
        "a begins at byte 4 and ends at 8, after 0 of 8 bytes");
  CHECK(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})") ==
        "a begins at byte 0 and ends at 8, after 0 of 4 bytes");
  CHECK(why_not(file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                        R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                        "12345678")) == "b begins at byte 0 and ends at 4, after 4 of 8 bytes");
}
