#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// "0-3,8" (the kernel's list format) as {0, 1, 2, 3, 8}; what is no number is left out.
std::vector<int> parse_number_list(std::string_view text);

/// Whether that text has it, however long the list is that it stands for.
bool is_in_number_list(std::string_view text, int number);

/// {0, 1, 2, 3, 8} as "0-3,8"; the numbers are ascending.
std::string format_number_list(const std::vector<int>& numbers);

}  // namespace ddprun::launcher
