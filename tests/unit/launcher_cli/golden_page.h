#pragma once

#include "tests/support/file_content.h"

#include <cstdlib>
#include <fstream>
#include <string>

namespace ddprun::launcher {

/// The page that `actual` ought to be, from a file beside the tests; with DDPRUN_REWRITE set the file becomes `actual`.
inline std::string golden_page(const std::string& name, const std::string& actual) {
  const std::string path = std::string(DDPRUN_GOLDEN_DIR) + "/" + name;
  if (std::getenv("DDPRUN_REWRITE") != nullptr) std::ofstream(path) << actual;
  return file_content(path);
}

}  // namespace ddprun::launcher
