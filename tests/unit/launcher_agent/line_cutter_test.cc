#include "launcher/output/line_cutter.h"

#include "tests/support/catch.h"

#include <string>
#include <vector>

using ddprun::launcher::LineCutter;

namespace {

using Blocks = std::vector<std::string>;

Blocks feed(LineCutter& cutter, std::string_view data) {
  Blocks blocks;
  cutter.feed(data, [&](std::string_view block) { blocks.emplace_back(block); });
  return blocks;
}

}  // namespace

TEST_CASE("whole lines pass at once and the rest is held") {
  LineCutter cutter(LineCutter::Ends::kNewline);
  CHECK(feed(cutter, "one\ntwo\nthr") == Blocks{"one\ntwo\n"});
  CHECK(cutter.is_holding());
  CHECK(feed(cutter, "ee\nfour\n") == Blocks{"three\n", "four\n"});
  CHECK_FALSE(cutter.is_holding());
}

TEST_CASE("a carriage return ends a line only where progress bars are wanted") {
  LineCutter lines(LineCutter::Ends::kNewline);
  CHECK(feed(lines, "\r 10%\r 20%").empty());
  LineCutter bars(LineCutter::Ends::kNewlineOrReturn);
  CHECK(feed(bars, "\r 10%\r 20%") == Blocks{"\r 10%\r"});
  CHECK(feed(bars, "\r 30%\n") == Blocks{" 20%\r 30%\n"});
}

TEST_CASE("a Windows line end is one line end, also when it is split") {
  LineCutter cutter(LineCutter::Ends::kNewlineOrReturn);
  CHECK(feed(cutter, "one\r").empty());
  CHECK(feed(cutter, "\ntwo\r\n") == Blocks{"one\r\n", "two\r\n"});
}

TEST_CASE("an incomplete line is let out on request") {
  LineCutter cutter(LineCutter::Ends::kNewline);
  CHECK(feed(cutter, "Password: ").empty());
  Blocks blocks;
  cutter.flush([&](std::string_view block) { blocks.emplace_back(block); });
  CHECK(blocks == Blocks{"Password: "});
  CHECK_FALSE(cutter.is_holding());
}

TEST_CASE("a line without end is let out in pieces, so that memory stays bounded") {
  LineCutter cutter(LineCutter::Ends::kNewline);
  std::size_t out = 0;
  const std::string piece(64 * 1024, 'x');
  for (int i = 0; i < 16; ++i) {
    for (const std::string& block : feed(cutter, piece)) out += block.size();
  }
  CHECK(out >= 16 * piece.size() - LineCutter::kLongestHeld);
}

TEST_CASE("however the bytes are split, they come out unchanged and cut at line ends") {
  const std::string text = "a\r\nbb\n\xc3\xa4\xe2\x82\xac\n\n\rc\rdd\nlast";
  for (const auto ends : {LineCutter::Ends::kNewline, LineCutter::Ends::kNewlineOrReturn}) {
    for (std::size_t split = 0; split <= text.size(); ++split) {
      LineCutter cutter(ends);
      std::string joined;
      for (const std::string& part : {text.substr(0, split), text.substr(split)}) {
        for (const std::string& block : feed(cutter, part)) {
          CHECK((block.back() == '\n' || block.back() == '\r'));
          joined += block;
        }
      }
      cutter.flush([&](std::string_view block) { joined += block; });
      CHECK(joined == text);
    }
  }
}
