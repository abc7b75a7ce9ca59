#pragma once

#include "launcher/report/outcome.h"

#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// What a worker said about its own end in its TORCHELASTIC_ERROR_FILE.
struct ErrorFile {
  std::string message;    ///< "RuntimeError: boom"
  std::string stack;      ///< several lines; may be empty
  std::string timestamp;  ///< seconds since 1970 as written; may be empty
};

/// Understands both forms torch writes: {"message": {"message", "extraInfo": {"py_callstack", "timestamp"}}}, and
/// {"message": "text", "timestamp"}. Nullopt when it is neither.
std::optional<ErrorFile> parse_error_file(std::string_view text);

/// What a worker wrote there; empty when that is nothing, no regular file, or more than 4 MiB.
std::string error_file_text(const std::string& path);

/// The file's content as ErrorFile; nullopt when it is missing, empty or something else.
std::optional<ErrorFile> load_error_file(const std::string& path);

/// What the worker itself wrote there; not what lay there before it was started.
std::optional<ErrorFile> load_error_file(const WorkerOutcome& worker);

/// Why what the worker wrote there tells nothing; empty where it does, or nothing is there.
std::string why_unreadable(const WorkerOutcome& worker);

/// What goes into our own TORCHELASTIC_ERROR_FILE, which an outer scheduler reads: the root cause's file with
/// the worker's exit code (-9 for SIGKILL) added as `errorCode`, as torchrun does; or, where the worker wrote
/// none, `headline` in that form.
std::string propagated_error(std::string_view worker_file, const std::string& headline, int error_code,
                             long timestamp_seconds);

}  // namespace ddprun::launcher
