#include "tests/support/catch.h"
#include "tests/unit/checkpoint/temporary_folder.h"
#include <ddprun/pt_file.h>

#include <torch/types.h>

#include <filesystem>
#include <fstream>

using namespace ddprun;
using ddprun::testing::TemporaryFolder;

namespace {

PtValue round_trip(const PtValue& value) {
  const TemporaryFolder folder;
  save_pt(folder.file("value.pt"), value);
  return load_pt(folder.file("value.pt"));
}

}  // namespace

TEST_CASE("scalars come back from a .pt file as they were") {
  PtDict dict;
  dict.set("none", PtValue());
  dict.set("yes", true);
  dict.set("small", 7);
  dict.set("negative", -300);
  dict.set("large", std::int64_t{-1} << 40);
  dict.set("float", 0.1);
  dict.set("text", "héllo");
  const PtValue back = round_trip(dict);
  const PtDict& read = back.as_dict();
  CHECK(read.at("none").is_none());
  CHECK(read.at("yes").as_bool());
  CHECK(read.at("small").as_int() == 7);
  CHECK(read.at("negative").as_int() == -300);
  CHECK(read.at("large").as_int() == std::int64_t{-1} << 40);
  CHECK(read.at("float").as_double() == 0.1);
  CHECK(read.at("text").as_string() == "héllo");
}

TEST_CASE("a value that is set again replaces the one before, whatever number or text its key is") {
  PtDict dict;
  for (const int step : {1, 2, 3}) dict.set("step", step);
  dict.set(1, "int");
  dict.set(true, "bool");
  dict.set(PtTuple{{1, "a"}}, "tuple");
  dict.set(PtTuple{{1.0, "a"}}, "equal tuple");
  dict.set(0.5, "float");
  dict.set("1", "text");
  REQUIRE(dict.entries.size() == 5);
  CHECK(dict.at("step").as_int() == 3);
  CHECK(dict.find(1)->as_string() == "bool");
  CHECK(dict.entries[2].second.as_string() == "equal tuple");
  CHECK(dict.at("1").as_string() == "text");
}

TEST_CASE("integer keys, lists and tuples come back from a .pt file") {
  PtDict dict;
  dict.set(3, PtList{{1, "two", PtTuple{{0.9, 0.999}}}});
  const PtValue back = round_trip(dict);
  const auto& list = back.as_dict().find(std::int64_t{3})->as_sequence();
  REQUIRE(list.size() == 3);
  CHECK(list[2].as_sequence()[1].as_double() == 0.999);
}

TEST_CASE("tensors of every storable type come back bit for bit") {
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort,
                          at::kChar, at::kByte, at::kBool, at::kComplexFloat}) {
    const at::Tensor tensor = at::arange(12, at::kFloat).sub(3).to(type).view({3, 4});
    const PtValue back = round_trip(tensor);
    CHECK(back.as_tensor().scalar_type() == type);
    CHECK(at::equal(back.as_tensor(), tensor));
  }
}

TEST_CASE("views, scalars and empty tensors come back with their shape") {
  const at::Tensor base = at::arange(24).view({4, 6});
  CHECK(at::equal(round_trip(base.t()).as_tensor(), base.t()));
  CHECK(at::equal(round_trip(base[2].slice(0, 1, 6, 2)).as_tensor(), base[2].slice(0, 1, 6, 2)));
  CHECK(round_trip(at::scalar_tensor(4)).as_tensor().dim() == 0);
  CHECK(round_trip(at::empty({0, 5})).as_tensor().sizes() == at::IntArrayRef({0, 5}));
}

TEST_CASE("a tensor that occurs twice is stored once") {
  const TemporaryFolder folder;
  const at::Tensor tensor = at::zeros({25000});
  save_pt(folder.file("twice.pt"), PtList{{tensor, tensor}});
  CHECK(std::filesystem::file_size(folder.file("twice.pt")) < 110000);
}

// Views of one memory that differ in a bit alone, which says how it is read.
TEST_CASE("a tensor and its conjugate are both stored as what they are") {
  const at::Tensor z = at::complex(at::arange(3, at::kFloat), at::full({3}, 2.0F));
  const PtValue back = round_trip(PtList{{z, z.conj(), at::imag(z), at::imag(z.conj())}});
  const auto& list = back.as_sequence();
  CHECK(at::equal(list[0].as_tensor(), z));
  CHECK(at::equal(list[1].as_tensor(), z.conj().resolve_conj()));
  CHECK(at::equal(list[2].as_tensor(), at::full({3}, 2.0F)));
  CHECK(at::equal(list[3].as_tensor(), at::full({3}, -2.0F)));
}

TEST_CASE("a sparse tensor is refused with its type") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(
      save_pt(folder.file("sparse.pt"), at::eye(3).to_sparse()),
      Catch::Matchers::Contains("a tensor of type Float and layout sparse cannot be stored in a .pt file"));
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("a text that Python could not open is refused by what it says, and nothing is written") {
  const TemporaryFolder folder;
  const std::string path = folder.file("value.pt");
  PtDict dict;
  dict.set("host", "M\xfcnchen");
  try {
    save_pt(path, dict);
    FAIL("it was saved");
  } catch (const Exception& exception) {
    CHECK(exception.code() == ErrorCode::kConfig);
    CHECK(std::string(exception.what()) == "cannot save " + path +
                                               ": the text \"M?nchen\" of 7 bytes is no UTF-8, and Python "
                                               "could not open the file; keep bytes in a "
                                               "tensor of uint8");
  }
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("saving where there is no folder names the file and the reason") {
  CHECK_THROWS_WITH(save_pt("/nowhere/x.pt", 1),
                    Catch::Matchers::StartsWith("cannot save /nowhere/x.pt: cannot create ") &&
                        Catch::Matchers::EndsWith("No such file or directory"));
}

TEST_CASE("a .pt file cut anywhere is refused as corrupt") {
  const TemporaryFolder folder;
  const std::string path = folder.file("whole.pt");
  save_pt(path, PtList{{at::ones({3}), "text"}});
  const auto size = std::filesystem::file_size(path);
  for (std::uintmax_t cut = 0; cut < size; cut += 7) {
    std::filesystem::resize_file(path, cut);
    try {
      load_pt(path);
      FAIL("a file cut to " << cut << " bytes was read");
    } catch (const Exception& exception) {
      CHECK(exception.code() == ErrorCode::kCorrupt);
    }
    std::filesystem::remove(path);
    save_pt(path, PtList{{at::ones({3}), "text"}});
  }
}

TEST_CASE("a file that is no .pt file says so") {
  const TemporaryFolder folder;
  std::ofstream(folder.file("notes.txt")) << "this is a text that is longer than a zip directory";
  CHECK_THROWS_WITH(load_pt(folder.file("notes.txt")),
                    Catch::Matchers::EndsWith(
                        "it is truncated or not a .pt file: its 50 bytes do not end with a zip directory"));
}

TEST_CASE("a missing .pt file is not found") {
  CHECK_THROWS_WITH(load_pt("/nowhere/x.pt"), Catch::Matchers::Contains("cannot open /nowhere/x.pt"));
}
