#include "rendezvous/config/json_text.h"

#include "rendezvous/config/position.h"
#include "tests/support/catch.h"

#include <sys/resource.h>

#include <random>
#include <string>
#include <string_view>

using namespace ddprun::config;

namespace {

Position value_place(const JsonText& text, std::string_view pointer) {
  return position_of(text.text, text.offsets.find(pointer).value().value);
}

Position key_place(const JsonText& text, std::string_view pointer) {
  return position_of(text.text, text.offsets.find(pointer).value().key.value());
}

/// Of this process so far, in bytes.
std::size_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

}  // namespace

TEST_CASE("keys and values are found again by their pointer") {
  const JsonText text = parse_json_text("{\n  \"a\": [1,\n    {\"b/c\": null}]\n}", "t.json").value();
  CHECK(key_place(text, "/a") == Position{2, 3});
  CHECK(value_place(text, "/a") == Position{2, 8});
  CHECK(value_place(text, "/a/1") == Position{3, 5});
  CHECK(value_place(text, "/a/1/b~1c") == Position{3, 13});
  CHECK(value_place(text, "") == Position{1, 1});
  for (const char* nowhere : {"/b", "/a/2", "/a/x", "/a/0/b", "/a/1/b"})
    CHECK_FALSE(text.offsets.find(nowhere));
}

TEST_CASE(
    "one string of a megabyte, on one line, is read once") {  // for each of its letters it would be hours
  const std::string text = "{\"a\": \"" + std::string(1'000'000, 'x') + "\"}";
  CHECK(value_place(parse_json_text(text, "t.json").value(), "/a") == Position{1, 7});
}

TEST_CASE("a long key above many values takes no more memory than it has letters") {
  std::string text = "{\"" + std::string(20000, 'k') + "\": [0";
  for (int count = 0; count < 40000; ++count) text += ",1";
  text += "]}";
  const std::size_t before = peak_memory();
  const JsonText parsed = parse_json_text(text, "t.json").value();
  CHECK(value_place(parsed, "/" + std::string(20000, 'k') + "/39999") == Position{1, 100005});
  // With a pointer for each value: 1.6 GB.
  CHECK(peak_memory() - before < 100'000'000);
}

TEST_CASE("what the scanner takes, the JSON library takes") {
  for (const char* text :
       {"null", " [ ] ", "{}", "-0.5e+10", R"("\u00e9\n\"")", "[[[[]]]]", "1E5", "[0, -0, 10]"}) {
    INFO(text);
    CHECK(parse_json_text(text, "t.json").value().value == nlohmann::json::parse(text));
  }
}

TEST_CASE("nothing that is broken is taken, wherever it is cut") {
  const std::string whole = R"({"a": [1, -2.5e3, true, null, "x\u0041\n"], "b": {"c": false}})";
  REQUIRE(parse_json_text(whole, "t.json").has_value());
  for (std::size_t length = 0; length < whole.size(); ++length) {
    INFO(whole.substr(0, length));
    CHECK_FALSE(parse_json_text(whole.substr(0, length), "t.json").has_value());
  }
}

TEST_CASE("bytes that are not UTF-8 are refused where they stand") {
  CHECK_THAT(parse_json_text("{\n \"a\": \"\xff\"}", "t.json").error().message(),
             Catch::StartsWith("t.json:2:8: this is not valid UTF-8"));
}

TEST_CASE("a number too large for a double is refused where it stands") {
  CHECK_THAT(parse_json_text("[1e999]", "t.json").error().message(),
             Catch::StartsWith("t.json:1:2: '1e999' is no JSON number: it is larger than 1.8e308"));
}

TEST_CASE("a hundred thousand brackets are refused, not followed") {
  CHECK_THAT(parse_json_text(std::string(100000, '['), "t.json").error().message(),
             Catch::StartsWith("t.json:1:66: nested deeper than 64 levels"));
}

TEST_CASE("a long line is cut around the caret") {
  const std::string text = "[" + std::string(200, ' ') + "x" + std::string(200, ' ') + "]";
  const std::string message = parse_json_text(text, "t.json").error().message();
  CHECK(message.size() < 300);
  CHECK_THAT(message, Catch::Contains("x") && Catch::Contains("^ here"));
}

TEST_CASE("on ten thousand damaged texts the scanner and the JSON library agree") {
  const std::string whole =
      R"({"a": [1, -2.5e3, true, null, "x\u0041\n"], "b": {"c": false, "d": "é"}, "e": 0.1})";
  const std::string alphabet = "{}[]\",:\\ \n019.eE+-tfnu/'#\xc3";
  std::mt19937 random(20261121);  // NOLINT(cert-msc51-cpp): the same texts in every run
  for (int round = 0; round < 10000; ++round) {
    std::string text = whole;
    for (int edits = 1 + static_cast<int>(random() % 3); edits > 0; --edits) {
      text[random() % text.size()] = alphabet[random() % alphabet.size()];
    }
    const auto parsed = parse_json_text(text, "t.json");
    const bool stricter = !parsed && (parsed.error().message().find("stands twice") != std::string::npos ||
                                      parsed.error().message().find("larger than") != std::string::npos);
    INFO(text);
    if (!stricter && parsed.has_value() != nlohmann::json::accept(text)) FAIL_CHECK("they disagree");
  }
}

TEST_CASE("a byte order mark is passed over, and counts for no column") {
  CHECK(key_place(parse_json_text("\xef\xbb\xbf{\"a\": 1}", "t.json").value(), "/a") == Position{1, 2});
}

TEST_CASE("UTF-16 is refused by its name, with and without a mark") {
  using namespace std::string_literals;
  for (const std::string& text : {"\xff\xfe{\0}\0"s, "\xfe\xff\0{\0}"s, "{\0}\0"s, "\0{\0}"s}) {
    CHECK(parse_json_text(text, "t.json").error().message() ==
          "t.json: this file is UTF-16, and JSON is UTF-8; save it as UTF-8, or run iconv -f UTF-16 -t UTF-8 "
          "t.json");
  }
}

TEST_CASE("comments stand anywhere outside of strings, and move nothing") {
  const JsonText text =
      parse_json_text("// ä\n{ // \"\n  \"a\": \"http://b\", // {\n  \"c\": 1 //\n} // end", "t.json")
          .value();
  CHECK(text.value == nlohmann::json{{"a", "http://b"}, {"c", 1}});
  CHECK(key_place(text, "/c") == Position{4, 3});
  CHECK(parse_json_text("{\"a\\\\\": 1 // \"\n}", "t.json")->value == nlohmann::json{{"a\\", 1}});
  CHECK(parse_json_text("{\"a\\\"//\": 1}", "t.json")->value == nlohmann::json{{"a\"//", 1}});
  CHECK(parse_json_text("//", "t.json").has_error());
  CHECK(parse_json_text("{/* no */}", "t.json").has_error());
  CHECK(parse_json_text("{\"a // b\n\": 1}", "t.json").has_error());
}
