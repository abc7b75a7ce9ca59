#pragma once

#include <string_view>

namespace ddprun::launcher {

// What a line of stderr is, by its looks: one without colours and prefixes (PlainLine). Pure.

/// What Python puts between the exceptions of a chain.
bool is_chain_mark(std::string_view line);
/// Of an error that comes without a header.
bool is_syntax_error(std::string_view line);
bool is_indented_or_blank(std::string_view line);

/// The last line of a fatal error of Python's.
inline constexpr std::string_view kExtensionModules = "Extension modules: ";
/// A further line of one. Source: Python/traceback.c, Python/pylifecycle.c.
bool is_of_fault(std::string_view line);

/// The line of a log, as logging, loguru and asyncio write it before the traceback of what was caught.
bool is_log_line(std::string_view line);
/// One of PyTorch's C++: "[W1121 20:00:00.123456789 ProcessGroupNCCL.cpp:1] ".
bool is_glog(std::string_view line);
/// tqdm's, Lightning's.
bool is_progress_bar(std::string_view line);
/// One that is written after an exception and is none of its text: by Python, C++, PyTorch and wandb on their way out.
bool is_exit_noise(std::string_view line);

}  // namespace ddprun::launcher
