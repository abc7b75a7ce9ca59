#include "tests/support/transcript.h"

#include "tests/support/catch.h"
#include "tests/support/file_content.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace ddprun::testing {
namespace {

TranscriptCommand parse_command(const std::string& line) {
  std::istringstream words(line);
  TranscriptCommand command;
  words >> command.verb;
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    command.arguments[word.substr(0, equals)] = equals == std::string::npos ? "" : word.substr(equals + 1);
  }
  return command;
}

}  // namespace

std::string TranscriptCommand::text(const std::string& name, std::string fallback) const {
  const auto found = arguments.find(name);
  return found == arguments.end() ? std::move(fallback) : found->second;
}

int TranscriptCommand::number(const std::string& name, int fallback) const {
  const auto found = arguments.find(name);
  return found == arguments.end() ? fallback : std::stoi(found->second);
}

std::string replay_transcript(std::string_view text,
                              const std::function<std::string(const TranscriptCommand&)>& interpret) {
  std::istringstream lines{std::string(text)};
  std::string result;
  std::string command;
  bool skips_output = false;
  for (std::string line; std::getline(lines, line);) {
    if (skips_output) {
      if (!line.empty()) continue;
      skips_output = false;
    }
    result += line + "\n";
    if (line == "----") {
      result += interpret(parse_command(command));
      skips_output = true;
    } else if (!line.empty() && line.front() != '#') {
      command = line;
    }
  }
  return result;
}

void check_transcripts(
    const std::string& directory,
    const std::function<std::function<std::string(const TranscriptCommand&)>()>& make_interpreter) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  REQUIRE_FALSE(files.empty());
  for (const std::filesystem::path& file : files) {
    const std::string expected = file_content(file);
    const std::string actual = replay_transcript(expected, make_interpreter());
    if (std::getenv("DDPRUN_REWRITE") != nullptr) {
      std::ofstream(file) << actual;
      continue;
    }
    INFO(file.filename().string());
    CHECK(actual == expected);
  }
}

}  // namespace ddprun::testing
