#include "launcher/output/console.h"

#include <sys/stat.h>

namespace ddprun::launcher {

bool Console::is_same_target(int a, int b) {
  struct stat left {};
  struct stat right {};
  if (::fstat(a, &left) != 0 || ::fstat(b, &right) != 0) return false;
  return left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

void Console::write(Writer writer, std::string_view bytes) {
  if (bytes.empty()) return;
  if (is_mid_line_ && writer != last_writer_) outlet_.write("\n");
  outlet_.write(bytes);
  last_writer_ = writer;
  is_mid_line_ = bytes.back() != '\n' && bytes.back() != '\r';
}

}  // namespace ddprun::launcher
