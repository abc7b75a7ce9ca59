#include "worker/runtime/comm/roll_call/roll_call.h"

#include "worker/runtime/comm/roll_call/await_keys.h"
#include "worker/runtime/comm/roll_call/store_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <exception>

namespace ddprun::runtime {
namespace {

constexpr std::string_view kGood = "ok ";
constexpr std::string_view kBad = "no ";

std::string answer_text(const Result<std::string>& answer) {
  if (answer) return std::string(kGood) + *answer;
  return fmt::format("{}{} {}", kBad, static_cast<int>(answer.error().code()), answer.error().message());
}

Result<std::string> parse_answer(const std::string& text) {
  if (text.starts_with(kGood)) return text.substr(kGood.size());
  const std::string rest = text.substr(kBad.size());
  return Error(static_cast<ErrorCode>(std::stoi(rest)), rest.substr(rest.find(' ') + 1));
}

class Roll {
 public:
  explicit Roll(const RollCall& call) : call_(call), answer_key_(call.prefix + "/answer") {
    for (int rank = 0; rank < call.size; ++rank) keys_.push_back(fmt::format("{}/{}", call.prefix, rank));
  }

  void say(const std::string& mine) {
    put_text(call_.store, keys_[static_cast<std::size_t>(call_.rank)], mine);
  }

  /// The answer: this one, unless another rank was faster.
  Result<std::string> settle(const Result<std::string>& answer) {
    const std::string text = answer_text(answer);
    const std::vector<std::uint8_t> settled =
        call_.store.compareSet(answer_key_, {}, std::vector<std::uint8_t>(text.begin(), text.end()));
    return parse_answer({settled.begin(), settled.end()});
  }

  Result<std::string> judge_all(const Judge& judge) {
    if (!await_keys(call_.store, keys_, call_.timeout)) return settle(missing());
    return settle(judge(take_texts(call_.store, keys_)));
  }

  Result<std::string> hear() {
    if (!await_keys(call_.store, {answer_key_}, call_.timeout)) return settle(missing());
    return parse_answer(take_text(call_.store, answer_key_));
  }

 private:
  Error missing() {
    std::vector<int> ranks;
    for (int rank = 0; rank < call_.size; ++rank) {
      if (!call_.store.check({keys_[static_cast<std::size_t>(rank)]})) ranks.push_back(rank);
    }
    const double seconds = std::chrono::duration<double>(call_.timeout).count();
    if (ranks.empty()) {
      return {ErrorCode::kTimeout,
              fmt::format("all {} ranks came, but the last too late for rank {}, which waited for {:.1f} s; "
                          "give it a longer timeout",
                          call_.size, call_.rank, seconds)};
    }
    return {ErrorCode::kTimeout,
            fmt::format("{} of {} ranks did not come within {:.1f} s: {}; look for their last output",
                        ranks.size(), call_.size, seconds, fmt::join(ranks, ", "))};
  }

  const RollCall& call_;
  std::string answer_key_;
  std::vector<std::string> keys_;
};

}  // namespace

Result<std::string> call_roll(const RollCall& call, const std::string& mine, const Judge& judge) {
  if (call.size == 1) return judge({mine});
  Roll roll(call);
  roll.say(mine);
  return call.rank == 0 ? roll.judge_all(judge) : roll.hear();
}

void refuse_roll(const RollCall& call, const Error& why) noexcept {
  try {
    Roll roll(call);
    static_cast<void>(roll.settle(why));
    roll.say({});
  } catch (const std::exception&) {
    // Nobody is left to tell.
  }
}

}  // namespace ddprun::runtime
