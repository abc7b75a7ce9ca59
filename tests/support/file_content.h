#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace ddprun {

/// Empty where there is no such file.
inline std::string file_content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace ddprun
