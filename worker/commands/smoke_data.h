#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::commands {

/// How much is made up.
struct SmokeSamples {
  std::int64_t train = 24;
  std::int64_t held_out = 8;
};

/// Whether what a job's /data names is on this machine; of what can be downloaded, all its files. What a plug-in
/// reads is its own: true.
bool is_data_there(const nlohmann::json& data);

/// Writes made-up data for /data below `folder`, in the layout of its type, so that the job's own reader and
/// transforms read it. A folder of images has two classes of 256 × 256 pixels; CSV eight features; numpy's arrays
/// eight features, or images of 3 × 64 × 64 for a model of images.
///
/// returns  what /data/path is to be; none: no such data can be made up
/// Errors   Exception kOs
std::optional<std::string> make_up_data(const nlohmann::json& data, const std::string& model_type,
                                        const SmokeSamples& samples, const std::string& folder);

}  // namespace ddprun::commands
