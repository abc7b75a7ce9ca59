#include "rendezvous/membership/log_funnel.h"

#include "tests/support/catch.h"

#include <optional>
#include <string>
#include <utility>

using namespace ddprun::membership;

namespace {

std::string all_text(LogFunnel& funnel) {
  std::string text;
  while (const auto lines = funnel.pop()) text += lines->text;
  return text;
}

}  // namespace

TEST_CASE("lines of one stream travel together, in order, and streams apart") {
  LogFunnel funnel;
  funnel.push(false, "one\n");
  funnel.push(false, "two\n");
  funnel.push(true, "oh\n");
  CHECK(funnel.pop()->text == "one\ntwo\n");
  const auto error = funnel.pop();
  CHECK(error->is_stderr);
  CHECK(error->text == "oh\n");
  CHECK_FALSE(funnel.pop().has_value());
}

TEST_CASE("a long block is cut at line ends") {
  LogFunnel funnel;
  const std::string line(100, 'x');
  std::string block;
  for (int i = 0; i < 300; ++i) block += line + "\n";
  funnel.push(false, block);
  const auto first = funnel.pop();
  CHECK(first->text.size() <= kMaxLogBytes);
  CHECK(first->text.back() == '\n');
  CHECK(first->text + all_text(funnel) == block);
}

TEST_CASE("a line longer than a message goes in pieces, and nothing of it is lost") {
  LogFunnel funnel;
  const std::string line = std::string(3 * kMaxLogBytes, 'x') + "\n";
  funnel.push(false, line);
  CHECK(all_text(funnel) == line);
}

TEST_CASE("what does not fit is dropped, and counted where it is missing") {
  LogFunnel funnel;
  const std::string block = std::string(LogFunnel::kCapacityBytes - 1, 'x') + "\n";
  funnel.push(false, block);
  funnel.push(false, "lost\nlost, too\n");
  CHECK(funnel.pop()->dropped_before == 0);
  funnel.push(false, "lost as well\n");  // until half has gone
  std::optional<LogLines> last;
  while (std::optional<LogLines> next = funnel.pop()) last = std::move(next);
  CHECK(last->dropped_before == 3);
  funnel.push(false, "kept\n");
  CHECK(funnel.pop()->text == "kept\n");
}

TEST_CASE("lines dropped at the very end are counted, too") {
  LogFunnel funnel;
  funnel.push(true, std::string(LogFunnel::kCapacityBytes, 'x'));
  funnel.push(true, "lost without an end");
  std::optional<LogLines> last;
  while (std::optional<LogLines> next = funnel.pop()) last = std::move(next);
  CHECK(last->dropped_before == 1);
}

TEST_CASE("lines that were under way when the connection ended are counted where they are missing") {
  LogFunnel funnel;
  funnel.push(false, "one\n");
  funnel.sent(*funnel.pop(), 100);
  funnel.push(false, "two\nthree\n");
  funnel.sent(*funnel.pop(), 250);
  funnel.push(false, "four\n");
  funnel.arrived(249);  // not the whole message, so that nobody can read it
  CHECK(funnel.bytes_under_way() == 10);
  funnel.connection_ended();
  CHECK(funnel.bytes_under_way() == 0);
  CHECK(funnel.bytes_lost() == 10);
  const auto next = funnel.pop();
  CHECK(next->text == "four\n");
  CHECK(next->dropped_before == 2);
}

TEST_CASE("a message that said what is missing, and is lost, is counted with what it said") {
  LogFunnel funnel;
  funnel.sent({.is_stderr = false, .text = "eight\n", .dropped_before = 7}, 100);
  funnel.connection_ended();
  CHECK(funnel.pop()->dropped_before == 8);
  CHECK_FALSE(funnel.pop());
}
