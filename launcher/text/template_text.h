#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun::launcher {

/// One name that may stand in a template and what replaces it.
using TemplateValue = std::pair<std::string_view, std::string>;

/// Python's string.Template.safe_substitute, which torchrun applies to every worker argument: `$name` and
/// `${name}` become the value, `$$` becomes `$`, and everything else that begins with `$` stays as it is.
std::string substitute(std::string_view text, std::span<const TemplateValue> values);

}  // namespace ddprun::launcher
