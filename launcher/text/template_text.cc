#include "launcher/text/template_text.h"

#include <algorithm>
#include <cstddef>

namespace ddprun::launcher {
namespace {

bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool continues_name(char c) { return starts_name(c) || (c >= '0' && c <= '9'); }

std::size_t name_length(std::string_view text) {
  if (text.empty() || !starts_name(text.front())) return 0;
  return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), continues_name) - text.begin());
}

}  // namespace

std::string substitute(std::string_view text, std::span<const TemplateValue> values) {
  std::string result;
  while (!text.empty()) {
    const std::size_t dollar = std::min(text.find('$'), text.size());
    result += text.substr(0, dollar);
    text.remove_prefix(dollar);
    if (text.empty()) break;

    if (text.substr(0, 2) == "$$") {
      result += '$';
      text.remove_prefix(2);
      continue;
    }
    const bool braced = text.substr(0, 2) == "${";
    const std::string_view rest = text.substr(braced ? 2 : 1);
    const std::string_view name = rest.substr(0, name_length(rest));
    const bool closed = !braced || rest.substr(name.size(), 1) == "}";
    const std::size_t length = (braced ? 3 : 1) + name.size();
    const auto value =
        std::find_if(values.begin(), values.end(), [&](const auto& pair) { return pair.first == name; });
    if (name.empty() || !closed || value == values.end()) {
      result += text.front();
      text.remove_prefix(1);
      continue;
    }
    result += value->second;
    text.remove_prefix(length);
  }
  return result;
}

}  // namespace ddprun::launcher
