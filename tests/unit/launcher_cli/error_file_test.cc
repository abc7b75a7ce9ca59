#include "launcher/report/error_file.h"

#include "tests/support/catch.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <filesystem>
#include <fstream>

using namespace ddprun::launcher;

// torch/distributed/elastic/multiprocessing/errors/error_handler.py
TEST_CASE("the file that @record writes is understood") {
  const auto file = parse_error_file(
      R"({"message": {"message": "ValueError: bad", "extraInfo": {"py_callstack": "Traceback\n  x", "timestamp": "17"}}})");
  REQUIRE(file);
  CHECK(file->message == "ValueError: bad");
  CHECK(file->stack == "Traceback\n  x");
  CHECK(file->timestamp == "17");
}

TEST_CASE("the short form is understood, with its time as text or number") {
  CHECK(parse_error_file(R"({"message": "bad", "timestamp": 17})")->timestamp == "17");
  CHECK(parse_error_file(R"({"message": "bad", "timestamp": "18"})")->timestamp == "18");
  CHECK(parse_error_file(R"({"message": "bad"})")->message == "bad");
}

TEST_CASE("something else is no error file") {
  for (const char* text : {"", "{", "[]", "{}", "null", R"({"message": 3})", "\xff\xfe"})
    CHECK_FALSE(parse_error_file(text));
  CHECK_FALSE(load_error_file("/nonexistent/error.json"));
  CHECK_FALSE(load_error_file(""));
}

TEST_CASE("a file that lay there before the worker was started says nothing about its end") {
  const std::string path =
      std::filesystem::temp_directory_path() / fmt::format("ddprun-error-{}.json", ::getpid());
  std::ofstream(path) << R"({"message": "old"})";
  WorkerOutcome worker;
  worker.error_file = path;
  CHECK(load_error_file(worker));
  worker.error_file_is_old = true;
  CHECK_FALSE(load_error_file(worker));
  std::filesystem::remove(path);
}

TEST_CASE("a file that was cut, or is none, is told with the reason, and one that is not there is not") {
  const std::string path =
      std::filesystem::temp_directory_path() / fmt::format("ddprun-error-{}.json", ::getpid());
  WorkerOutcome worker;
  CHECK(why_unreadable(worker).empty());
  worker.error_file = path;
  CHECK(why_unreadable(worker).empty());
  const auto why = [&](const std::string& text) {
    std::ofstream(path) << text;
    return why_unreadable(worker);
  };
  CHECK(why(R"({"message": "m"})").empty());
  CHECK(why("") == "it is empty");
  CHECK(why(R"({"message": {"mess)") == "its 18 bytes are no whole JSON text");
  CHECK(why(R"({"error": 3})") == "it is JSON, but has no \"message\" as torch writes it");
  CHECK(why(std::string(1'000'000, '[')) == "its 1000000 bytes are no whole JSON text");
  std::filesystem::resize_file(path, 5 << 20);
  CHECK(why_unreadable(worker) == path + " has 5242880 bytes; at most 4194304 are read");
  worker.error_file_is_old = true;
  CHECK(why_unreadable(worker).empty());
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  worker.error_file_is_old = false;
  CHECK(why_unreadable(worker) == path + " is not a regular file");
  std::filesystem::remove(path);
}

TEST_CASE("an outer scheduler gets the worker's file with the exit code in it") {
  const auto json = nlohmann::json::parse(propagated_error(
      R"({"message": {"message": "m", "extraInfo": {"timestamp": "1"}}, "x": 1})", "headline", 7, 5));
  CHECK(json["message"]["errorCode"] == 7);
  CHECK(json["message"]["message"] == "m");
  CHECK(json["x"] == 1);
}

TEST_CASE("what is nested a million levels deep in a worker's file is left out") {
  const std::string deep(1'000'000, '[');
  const std::string text =
      R"({"message": {"message": "m", "x": )" + deep + std::string(deep.size(), ']') + "}}";
  const auto json = nlohmann::json::parse(propagated_error(text, "headline", 7, 5));
  CHECK(json["message"]["message"] == "m");
  CHECK(json["message"]["errorCode"] == 7);
  CHECK(parse_error_file(text)->message == "m");
}

TEST_CASE("where the worker wrote no file, an outer scheduler gets our headline") {
  const auto json = nlohmann::json::parse(propagated_error("", "rank 1 was killed", -9, 5));
  CHECK(json["message"]["message"] == "rank 1 was killed");
  CHECK(json["message"]["errorCode"] == -9);
  CHECK(json["message"]["extraInfo"]["timestamp"] == "5");
}
