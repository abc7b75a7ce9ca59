#include "rendezvous/base/utf8.h"

#include "tests/support/catch.h"

#include <string>

using namespace ddprun;

TEST_CASE("a character of UTF-8 has its code and length, and what is none has neither") {
  CHECK(first_character("a")->code == 'a');
  CHECK(first_character("\xc3\xa9t\xc3\xa9")->bytes == 2);
  CHECK(first_character("\xf0\x9f\x98\x80")->code == 0x1f600);
  // Latin-1, a continuation, one that is cut, an overlong one, a surrogate, beyond Unicode.
  for (const std::string bad : {"\xe9.bin", "\xa9", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80"})
    CHECK_FALSE(first_character(bad).has_value());
}

TEST_CASE("a text is cut between characters, and one that fits is left as it is") {
  CHECK(cut_at_character("caf\xc3\xa9", 5) == "caf\xc3\xa9");
  CHECK(cut_at_character("caf\xc3\xa9", 4) == "caf");
  CHECK(cut_at_character("a\xf0\x9f\x98\x80", 4) == "a");
  CHECK(cut_at_character("\xf0\x9f\x98\x80", 1).empty());
  CHECK(cut_at_character("abc", 2) == "ab");
  CHECK(cut_at_character("\x80\x80\x80\x80\x80\x80", 5).size() >= 2);  // no UTF-8: something is left of it
}
