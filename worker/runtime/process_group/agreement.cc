#include "worker/runtime/process_group/agreement.h"

#include "worker/runtime/process_group/store_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace ddprun::runtime {
namespace {

constexpr const char* kGroundKey = "placement/verdict";
constexpr std::string_view kShared = "ok ";
constexpr std::string_view kRefused = "no ";
constexpr std::size_t kMaxNamed = 8;

std::string offer_key(int rank) { return fmt::format("placement/{}", rank); }

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

std::string verdict_text(const Result<CommonGround>& ground) {
  if (!ground)
    return fmt::format("{}{} {}", kRefused, static_cast<int>(ground.error().code()),
                       ground.error().message());
  return fmt::format("{}{} {}", kShared, ground->ranks_per_gpu, ground->nccl_is_built ? 1 : 0);
}

Result<CommonGround> parse_verdict(const std::string& text) {
  const std::string rest = text.substr(kShared.size());
  const std::size_t space = rest.find(' ');
  const int number = std::stoi(rest);
  if (text.starts_with(kShared)) return CommonGround{number, rest.substr(space + 1) == "1"};
  return Error(static_cast<ErrorCode>(number), rest.substr(space + 1));
}

/// Rank 0's part: everyone's offers, or who did not make one.
Result<CommonGround> collect_and_judge(c10d::Store& store, int world_size,
                                       std::chrono::milliseconds timeout) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < world_size; ++rank) keys.push_back(offer_key(rank));
  try {
    store.wait(keys, timeout);
  } catch (const std::exception&) {
    std::vector<std::string> missing;
    for (int rank = 0; rank < world_size; ++rank) {
      if (!store.check({keys[static_cast<std::size_t>(rank)]})) missing.push_back(std::to_string(rank));
    }
    if (!missing.empty()) {
      return Error(ErrorCode::kTimeout,
                   fmt::format("{} of {} ranks did not come within {:.1f} s: {}; look for their last output",
                               missing.size(), world_size, std::chrono::duration<double>(timeout).count(),
                               fmt::join(missing, ", ")));
    }
  }
  std::vector<Offer> offers;
  for (const std::string& key : keys) offers.push_back(parse_offer(take_text(store, key)));
  return judge(offers);
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
  if (world_size == 1) return judge({mine});
  put_text(store, offer_key(rank), offer_text(mine));
  if (rank == 0) {
    Result<CommonGround> ground = collect_and_judge(store, world_size, timeout);
    put_text(store, kGroundKey, verdict_text(ground));
    return ground;
  }
  store.wait({kGroundKey}, timeout);
  return parse_verdict(take_text(store, kGroundKey));
}

}  // namespace ddprun::runtime
