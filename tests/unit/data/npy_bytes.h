#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::testing {

/// An .npy file of version 1.
inline std::vector<std::uint8_t> npy(const std::string& header, const std::string& data) {
  const std::string text =
      std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header + data;
  return {text.begin(), text.end()};
}

inline std::string header_of(const std::string& kind, const std::string& shape,
                             const std::string& fortran = "False") {
  return "{'descr': '" + kind + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}

}  // namespace ddprun::testing
