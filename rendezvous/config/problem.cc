#include "rendezvous/config/problem.h"

#include <cstddef>

namespace ddprun::config {

std::vector<std::string> pointer_tokens(std::string_view pointer) {
  std::vector<std::string> tokens;
  for (std::size_t at = 0; at < pointer.size(); ++at) {
    const char c = pointer[at];
    if (c == '/') {
      tokens.emplace_back();
    } else if (c == '~' && at + 1 < pointer.size() && (pointer[at + 1] == '0' || pointer[at + 1] == '1')) {
      tokens.back() += pointer[++at] == '0' ? '~' : '/';
    } else {
      tokens.back() += c;
    }
  }
  return tokens;
}

std::string parent_pointer(std::string_view pointer) {
  const std::size_t slash = pointer.rfind('/');
  return std::string(pointer.substr(0, slash == std::string_view::npos ? 0 : slash));
}

}  // namespace ddprun::config
