#include "rendezvous/base/exit_codes.h"
#include "worker/commands/checkpoint_weights.h"
#include "worker/commands/commands.h"
#include "worker/commands/opened_job.h"
#include "worker/commands/output.h"
#include "worker/commands/torchscript.h"
#include "worker/runtime/checkpoint/safetensors.h"
#include "worker/training/observers/text.h"
#include <ddprun/checkpoint.h>
#include <ddprun/exception.h>
#include <ddprun/pt_file.h>

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace ddprun::commands {
namespace {

namespace fs = std::filesystem;

enum class Format { kPt, kSafetensors, kTorchScript };

constexpr std::array<std::pair<std::string_view, Format>, 3> kFormats{
    {{"pt", Format::kPt}, {"safetensors", Format::kSafetensors}, {"torchscript", Format::kTorchScript}}};
constexpr std::array<std::pair<std::string_view, Format>, 4> kEndings{
    {{".pt", Format::kPt},
     {".pth", Format::kPt},
     {".safetensors", Format::kSafetensors},
     {".torchscript", Format::kTorchScript}}};

Format format_of(const config::JobCommandLine& line, const std::string& path) {
  const std::string wanted = line.value("format");
  for (const auto& [name, format] : kFormats)
    if (line.has("format") && name == wanted) return format;
  if (line.has("format")) {
    throw Exception(ErrorCode::kUsage,
                    fmt::format("--format: expected pt, safetensors or torchscript, got \"{}\"", wanted));
  }
  for (const auto& [ending, format] : kEndings)
    if (path.ends_with(ending)) return format;
  throw Exception(ErrorCode::kUsage, fmt::format("{} does not end like one of the formats; add --format pt, "
                                                 "safetensors or torchscript",
                                                 path));
}

std::string read_output(const config::JobCommandLine& line) {
  const std::string path = line.value("output");
  if (path.empty()) throw Exception(ErrorCode::kUsage, "where to? add --output FILE");
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status))
    throw Exception(ErrorCode::kUsage, fmt::format("{} is a folder; name a file in it", path));
  if (fs::exists(status) && !fs::is_regular_file(status))
    throw Exception(ErrorCode::kUsage, fmt::format("{} is no regular file", path));
  if (fs::exists(status) && !line.has("force"))
    throw Exception(ErrorCode::kUsage, fmt::format("{} is there already; --force replaces it", path));
  const fs::path folder = fs::absolute(path).parent_path();
  if (!fs::is_directory(folder, error))
    throw Exception(ErrorCode::kUsage, fmt::format("the folder of {} is not there", path));
  return path;
}

}  // namespace

int run_export(const config::JobCommandLine& line) {
  const std::string path = read_output(line);
  const Format format = format_of(line, path);
  const models::WeightsOf which = read_weights_of(line);
  const OpenedJob job = open_job(line, "cpu");
  const Checkpoint checkpoint = find_checkpoint(job.job, line);
  const LoadedWeights weights = load_chosen_weights(job.model(), job.job, checkpoint, which);
  job.model().eval();
  PtDict state = state_dict(job.model());
  switch (format) {
    case Format::kPt:
      save_pt(path, state);
      break;
    case Format::kSafetensors:
      runtime::save_safetensors(path, state);
      break;
    case Format::kTorchScript:
      save_torchscript(path, job.model(), job.shape());
      break;
  }
  print(fmt::format("{}: {} tensors of {}\n", path,
                    training::with_thousands(static_cast<std::int64_t>(state.entries.size())),
                    describe(checkpoint, weights)));
  return exit_code::kOk;
}

}  // namespace ddprun::commands
