#include "worker/training/state/saved_part.h"

#include "tests/support/catch.h"
#include <ddprun/exception.h>

using namespace ddprun;
using namespace ddprun::training;

namespace {

class Number final : public SavedPart {
 public:
  Number(std::string key, int start, bool is_essential = false)
      : SavedPart(std::move(key)), value(start), is_essential_(is_essential) {}
  bool is_essential() const override { return is_essential_; }
  PtValue save() override { return value; }
  void load(const PtValue& saved) override { value = static_cast<int>(saved.as_int()); }
  int value;

 private:
  bool is_essential_;
};

const AboutJob kAbout{.model = "mlp", .optimizer = "adam", .config = "{}"};

}  // namespace

TEST_CASE("each part of a job takes over its own entry of a checkpoint") {
  SavedParts saved;
  saved.push_back(std::make_unique<Number>("one", 1));
  saved.push_back(std::make_unique<Number>("two", 2));
  const PtDict checkpoint = make_checkpoint(kAbout, saved);
  CHECK(read_about(checkpoint).model == "mlp");
  CHECK(read_about(checkpoint).optimizer == "adam");

  SavedParts resumed;
  auto two = std::make_unique<Number>("two", 0);
  const Number& loaded = *two;
  resumed.push_back(std::move(two));
  CHECK(load_parts(checkpoint, resumed).empty());
  CHECK(loaded.value == 2);
}

TEST_CASE("a part that the checkpoint lacks begins anew, an essential one refuses it") {
  const PtDict checkpoint = make_checkpoint(kAbout, {});
  SavedParts parts;
  parts.push_back(std::make_unique<Number>("ema", 7));
  CHECK(load_parts(checkpoint, parts) == std::vector<std::string>{"ema"});
  parts.push_back(std::make_unique<Number>("model", 7, /*is_essential=*/true));
  CHECK_THROWS_WITH(load_parts(checkpoint, parts), "it has no \"model\" entry");
}

TEST_CASE("a file of someone else is not taken for a checkpoint") {
  PtDict other;
  other.set("model", PtDict());
  CHECK_THROWS_WITH(read_about(other), "it has no \"ddprun\" entry, so ddprun did not write it");
}

TEST_CASE("a checkpoint of another format says which ddprun reads it") {
  PtDict about;
  about.set("format", 1);
  PtDict old;
  old.set("ddprun", about);
  CHECK_THROWS_WITH(
      read_about(old),
      "it has format 1, and this ddprun reads format 2; use the earlier ddprun that wrote it, or "
      "start anew with --set /resume=never");
}
