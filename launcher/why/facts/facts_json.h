#pragma once

#include "launcher/why/facts/facts.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher::why {

/// Facts as JSON, for `--json`, for what a looking process hands on, and for transcripts of tests. Names of keys are
/// those of facts.h.
/// That of a rank is ASCII, and may be cut anywhere on its way.
std::string to_text(const RankFacts& facts);
std::string to_text(const JobPicture& picture);
nlohmann::json to_json(const JobPicture& picture);

/// Nullopt: it is something else. Keys that are missing have their defaults.
std::optional<RankFacts> parse_rank_facts(std::string_view text);
std::optional<JobPicture> parse_picture(std::string_view text);

}  // namespace ddprun::launcher::why
