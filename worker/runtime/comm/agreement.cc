#include "worker/runtime/comm/agreement.h"

#include "worker/runtime/comm/roll_call/roll_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace ddprun::runtime {
namespace {

constexpr std::size_t kMaxNamed = 8;

std::string offer_text(const Offer& offer) {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}", offer.host, offer.backend, offer.gpu, offer.why_no_gpu,
                     offer.nccl_is_built ? "nccl" : "", offer.refusal);
}

Offer parse_offer(const std::string& text) {
  std::vector<std::string> lines(1);
  for (const char c : text) {
    if (c == '\n' && lines.size() < 6) {
      lines.emplace_back();
    } else {
      lines.back().push_back(c);
    }
  }
  lines.resize(6);
  return {.host = lines[0],
          .backend = lines[1],
          .gpu = lines[2],
          .why_no_gpu = lines[3],
          .refusal = lines[5],
          .nccl_is_built = !lines[4].empty()};
}

/// "rank 0 on a, rank 1 on b and 6 more"
std::string name_ranks(const std::vector<Offer>& offers, const std::vector<std::size_t>& ranks) {
  std::vector<std::string> names;
  for (const std::size_t rank : ranks) {
    if (names.size() < kMaxNamed) names.push_back(fmt::format("rank {} on {}", rank, offers[rank].host));
  }
  std::string text = fmt::format("{}", fmt::join(names, ", "));
  if (ranks.size() > names.size()) text += fmt::format(" and {} more", ranks.size() - names.size());
  return text;
}

}  // namespace

Result<CommonGround> judge(const std::vector<Offer>& offers) {
  std::vector<std::size_t> with_gpu, without_gpu;
  std::map<std::string, int> users;
  CommonGround ground;
  for (std::size_t rank = 0; rank < offers.size(); ++rank) {
    const Offer& offer = offers[rank];
    if (!offer.refusal.empty()) {
      const std::string who = offers.size() == 1 ? "" : fmt::format("rank {} on {}: ", rank, offer.host);
      return Error(ErrorCode::kConfig, who + offer.refusal);
    }
    ground.nccl_is_built = ground.nccl_is_built && offer.nccl_is_built;
    if (offer.gpu.empty()) {
      without_gpu.push_back(rank);
    } else {
      with_gpu.push_back(rank);
      ground.ranks_per_gpu = std::max(ground.ranks_per_gpu, ++users[offer.gpu]);
    }
  }
  const auto other = std::find_if(offers.begin(), offers.end(), [&](const Offer& offer) {
    return offer.backend != offers.front().backend;
  });
  if (other != offers.end()) {
    return Error(
        ErrorCode::kConfig,
        fmt::format("the ranks ask for different backends: rank 0 on {} for {}, rank {} on {} for {}; set "
                    "DDPRUN_BACKEND, or what the program asks for, alike on all",
                    offers.front().host, offers.front().backend, other - offers.begin(), other->host,
                    other->backend));
  }
  if (!with_gpu.empty() && !without_gpu.empty()) {
    const std::string& why = offers[without_gpu.front()].why_no_gpu;
    return Error(
        ErrorCode::kConfig,
        fmt::format("some ranks have a GPU and some have none: {} with one, {} without{}; give every "
                    "rank one, or ask for device \"cpu\"",
                    name_ranks(offers, with_gpu), name_ranks(offers, without_gpu),
                    why.empty() ? "" : fmt::format(" ({})", why)));
  }
  return ground;
}

Result<CommonGround> agree_on_ground(c10d::Store& store, int rank, int world_size, const Offer& mine,
                                     std::chrono::milliseconds timeout) {
  const RollCall call{
      .store = store, .prefix = "placement", .rank = rank, .size = world_size, .timeout = timeout};
  const auto answer =
      call_roll(call, offer_text(mine), [](const std::vector<std::string>& said) -> Result<std::string> {
        std::vector<Offer> offers;
        for (const std::string& text : said) offers.push_back(parse_offer(text));
        const Result<CommonGround> ground = judge(offers);
        if (!ground) return ground.error();
        return fmt::format("{} {}", ground->ranks_per_gpu, ground->nccl_is_built ? 1 : 0);
      });
  if (!answer) return answer.error();
  return CommonGround{std::stoi(*answer), answer->ends_with(" 1")};
}

}  // namespace ddprun::runtime
