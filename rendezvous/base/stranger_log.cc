#include "rendezvous/base/stranger_log.h"

#include "rendezvous/base/printable.h"

#include <utility>

namespace ddprun {

void StrangerLog::warn(TimePoint now, std::string_view text) {
  if (lines_ == 0 || now - began_ >= kPeriod) {
    tell_left_out();
    began_ = now;
    lines_ = 0;
  }
  if (lines_ == kMostLines) {
    ++left_out_;
    return;
  }
  ++lines_;
  logger_.warn("{}", printable(text, kLongestLine));
}

void StrangerLog::tell_left_out() {
  if (const std::uint64_t count = std::exchange(left_out_, 0); count != 0) {
    logger_.warn("{} more lines about connections that were turned away are left out", count);
  }
}

}  // namespace ddprun
