#include "tests/support/catch.h"
#include <ddprun/exception.h>
#include <ddprun/trainer/options.h>

#include <string>
#include <vector>

using Catch::Matchers::Message;
using ddprun::Exception;
using ddprun::Options;

TEST_CASE("options give each value by its type") {
  const Options options(R"({"width": 64, "rate": 0.5, "whole": 2, "deep": true, "kind": "a", "hidden": [1, 2],
                            "mean": [0.1, 2], "names": ["x"], "inner": {"depth": 3}, "list": [{"p": 1}, {"p": 2}]})",
                        "/model");
  CHECK(options.integer("width") == 64);
  CHECK(options.number("rate") == 0.5);
  CHECK(options.number("whole") == 2);
  CHECK(options.flag("deep"));
  CHECK(options.text("kind") == "a");
  CHECK(options.integers("hidden") == std::vector<std::int64_t>{1, 2});
  CHECK(options.numbers("mean") == std::vector<double>{0.1, 2});
  CHECK(options.texts("names") == std::vector<std::string>{"x"});
  CHECK(options.object("inner").integer("depth") == 3);
  CHECK(options.objects("list").at(1).integer("p") == 2);
}

TEST_CASE("a value of another type is refused with its place") {
  const Options options(R"({"width": "64", "hidden": [1, 2.5], "inner": {"depth": []}})", "/model");
  CHECK_THROWS_MATCHES(options.integer("width"), Exception,
                       Message("/model/width: expected integer, got \"64\" (a string)"));
  CHECK_THROWS_MATCHES(Options(R"({"width": 18446744073709551615})").integer("width"), Exception,
                       Message("/width: expected integer, got 18446744073709551615 (number)"));
  CHECK_THROWS_MATCHES(options.integers("hidden"), Exception,
                       Message("/model/hidden/1: expected integer, got 2.5 (number)"));
  CHECK_THROWS_MATCHES(options.object("inner").text("depth"), Exception,
                       Message("/model/inner/depth: expected a string, got [] (array)"));
  CHECK_THROWS_MATCHES(Options("[1]", "/task"), Exception,
                       Message("/task: expected an object, got [1] (array)"));
}

TEST_CASE("a key that is not there is missing, or has the default that its reader says") {
  const Options options(R"({"nothing": null})", "/model/options");
  CHECK_THROWS_MATCHES(options.integer("width"), Exception, Message("/model/options/width: missing"));
  CHECK_THROWS_MATCHES(options.text("nothing"), Exception, Message("/model/options/nothing: missing"));
  CHECK(options.integer("width", 7) == 7);
  CHECK(options.text("nothing", "x") == "x");
  CHECK_FALSE(options.has("nothing"));
}

TEST_CASE("options know which keys nobody has asked for") {
  const Options options(R"({"width": 1, "wdith": 2, "inner": {"depth": 3}})");
  const Options copy = options;
  CHECK(copy.integer("width") == 1);
  CHECK(options.unread() == std::vector<std::string>{"inner", "wdith"});
  CHECK(options.object("inner").unread() == std::vector<std::string>{"depth"});
  CHECK(options.unread() == std::vector<std::string>{"wdith"});
}
