#include "rendezvous/config/json_text.h"

#include "tests/support/catch.h"

#include <chrono>
#include <random>
#include <string>

using namespace ddprun::config;

TEST_CASE("keys and values are found again by their pointer") {
  const JsonText text = parse_json_text("{\n  \"a\": [1,\n    {\"b/c\": null}]\n}", "t.json").value();
  CHECK(text.keys.at("/a") == Position{2, 3});
  CHECK(text.values.at("/a") == Position{2, 8});
  CHECK(text.values.at("/a/1") == Position{3, 5});
  CHECK(text.values.at("/a/1/b~1c") == Position{3, 13});
  CHECK(text.values.at("") == Position{1, 1});
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
  CHECK(parse_json_text("\xef\xbb\xbf{\"a\": 1}", "t.json").value().keys.at("/a") == Position{1, 2});
}

TEST_CASE("UTF-16 is refused by its name, with and without a mark") {
  using namespace std::string_literals;
  for (const std::string& text : {"\xff\xfe{\0}\0"s, "\xfe\xff\0{\0}"s, "{\0}\0"s, "\0{\0}"s}) {
    CHECK(parse_json_text(text, "t.json").error().message() ==
          "t.json: this file is UTF-16, and JSON is UTF-8; save it as UTF-8, or run iconv -f UTF-16 -t UTF-8 "
          "t.json");
  }
}

TEST_CASE("the places of half a million values on one line are found in one walk") {
  std::string text = "[0";
  while (text.size() < 1'000'000) text += ",1";
  const auto before = std::chrono::steady_clock::now();
  const JsonText parsed = parse_json_text(text + "]", "t.json").value();
  CHECK(parsed.values.at("/499999") == Position{1, 1'000'000});
  // One walk takes a second or two on a busy machine; a walk for each value, ten minutes.
  CHECK(std::chrono::steady_clock::now() - before < std::chrono::seconds(60));
}
