#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::testing {

/// One command of a transcript: "exit rank=2 status=1" has verb "exit" and two arguments.
struct TranscriptCommand {
  std::string verb;
  std::map<std::string, std::string> arguments;

  [[nodiscard]] std::string text(const std::string& name, std::string fallback = {}) const;
  [[nodiscard]] int number(const std::string& name, int fallback) const;
};

/// Runs a transcript: a story told in commands and the complete output each of them must give.
///
///   # A comment, kept as it is.
///   exit rank=2 code=1
///   ----
///   running->draining: …
///
/// A command ends at its "----" line; its output ends at the next empty line. `interpret` is given one
/// command and returns its output. The result is the transcript as it would have to read; it equals `text`
/// when all is well.
std::string replay_transcript(std::string_view text,
                              const std::function<std::string(const TranscriptCommand&)>& interpret);

/// Replays every *.txt of `directory`, each with an interpreter of its own, and reports differences through
/// Catch. With DDPRUN_REWRITE set in the environment the files are rewritten instead.
void check_transcripts(
    const std::string& directory,
    const std::function<std::function<std::string(const TranscriptCommand&)>()>& make_interpreter);

}  // namespace ddprun::testing
