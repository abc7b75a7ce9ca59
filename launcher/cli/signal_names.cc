#include "launcher/cli/signal_names.h"

#include "launcher/cli/values.h"
#include "launcher/text/text.h"
#include "rendezvous/base/signal_name.h"
#include "rendezvous/base/suggest.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::launcher {
namespace {

std::string upper_case(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return result;
}

}  // namespace

Result<int> parse_signal(std::string_view name) {
  std::string wanted = upper_case(name);
  if (wanted.substr(0, 3) != "SIG") wanted.insert(0, "SIG");
  std::vector<std::string> known;
  for (int number = 1; number < SIGRTMIN; ++number) {
    std::string named = signal_name(number);
    if (!named.starts_with("SIG")) continue;
    known.push_back(std::move(named));
    if (known.back() != wanted) continue;
    if (number == SIGKILL || number == SIGSTOP) {
      return Error(ErrorCode::kUsage,
                   fmt::format("\"{}\": no process can handle {}; leave it away", name, wanted));
    }
    return number;
  }
  const std::string nearest = did_you_mean(wanted, known);
  return Error(ErrorCode::kUsage,
               fmt::format("\"{}\" is no signal{}", name,
                           nearest.empty() ? "; expected names such as SIGTERM,SIGUSR1" : nearest));
}

Result<std::vector<int>> parse_signals(std::string_view text) {
  std::vector<int> signals;
  for (const std::string& word : parse_words(text)) {
    const std::string_view name = trim_blanks(word);
    if (name.empty()) continue;
    const Result<int> number = parse_signal(name);
    if (!number) return number.error();
    signals.push_back(*number);
  }
  return signals;
}

std::string join_signal_names(const std::vector<int>& signals, std::string_view separator) {
  std::vector<std::string> names;
  for (const int signal : signals) names.push_back(signal_name(signal));
  return fmt::format("{}", fmt::join(names, separator));
}

}  // namespace ddprun::launcher
