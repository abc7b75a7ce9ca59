#include "worker/commands/checkpoint_weights.h"

#include "worker/commands/output.h"
#include "worker/runtime/checkpoint/live_folder.h"
#include "worker/runtime/checkpoint/safetensors.h"
#include "worker/training/observers/text.h"
#include "worker/training/parts/data_meaning.h"
#include "worker/training/resume/resume.h"
#include "worker/training/state/saved_part.h"
#include <ddprun/checkpoint.h>
#include <ddprun/exception.h>
#include <ddprun/pt_file.h>

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

namespace ddprun::commands {
namespace {

namespace fs = std::filesystem;

std::string shown(const std::string& path) {
  std::error_code error;
  return training::shown_path(path, fs::current_path(error).string());
}

/// A checkpoint of ddprun, and no state dict.
const PtDict* as_checkpoint(const PtValue& content) {
  const bool is_one = content.is_dict() && content.as_dict().find("ddprun") != nullptr;
  return is_one ? &content.as_dict() : nullptr;
}

}  // namespace

std::optional<Checkpoint> newest_checkpoint(const std::string& folder) {
  int skipped = 0;
  const auto read = [&](const CheckpointDirectory::Entry& entry) -> std::optional<Checkpoint> {
    try {
      return Checkpoint{entry.path, load_pt(entry.path)};
    } catch (const Exception& exception) {
      if (exception.code() != ErrorCode::kCorrupt) throw;
      ++skipped;
      print_error(
          fmt::format("ddprun: checkpoint of step {} is passed over: {}\n", entry.step, exception.what()));
      return std::nullopt;
    }
  };
  // The job may be training.
  auto newest = runtime::first_of_live_folder([&] { return training::checkpoints_in(folder); }, read);
  if (newest || skipped == 0) return newest;
  throw Exception(ErrorCode::kConfig,
                  fmt::format("no checkpoint in {} can be read ({} tried)", shown(folder), skipped));
}

Checkpoint find_checkpoint(const Options& job, const config::JobCommandLine& line) {
  const std::string wanted = line.value("checkpoint");
  if (line.has("checkpoint") && wanted.empty())
    throw Exception(ErrorCode::kUsage, "--checkpoint names nothing: is a shell variable unset?");
  std::error_code error;
  if (!wanted.empty() && !fs::is_directory(wanted, error))
    return {wanted, runtime::load_pt_or_safetensors(wanted)};
  const std::string folder = wanted.empty() ? job.text("output_dir") + "/checkpoints" : wanted;
  if (auto newest = newest_checkpoint(folder)) return std::move(*newest);
  throw Exception(ErrorCode::kConfig,
                  fmt::format("there is no checkpoint in {}; {}", shown(folder),
                              wanted.empty() ? "train the job first, or name a file with --checkpoint"
                                             : "name a file, or a folder with some"));
}

models::WeightsOf read_weights_of(const config::JobCommandLine& line) {
  const std::string word = line.value("weights-of", "auto");
  if (const auto which = models::to_weights_of(word)) return *which;
  throw Exception(ErrorCode::kUsage,
                  fmt::format("--weights-of: expected average, model or auto, got \"{}\"", word));
}

LoadedWeights load_chosen_weights(Model& model, const Options& job, const Checkpoint& checkpoint,
                                  models::WeightsOf which) {
  LoadedWeights loaded;
  try {
    if (const PtDict* own = as_checkpoint(checkpoint.content)) {
      const std::string theirs = training::read_about(*own).model;
      const std::string mine = job.object("model").text("type");
      if (theirs != mine) {
        throw Exception(ErrorCode::kConfig,
                        fmt::format("its model is {}, the job file's is {}", theirs, mine));
      }
      loaded.position = training::read_position(own->at("position").as_dict());
    }
    const models::ChosenWeights weights = models::choose_weights(checkpoint.content, "the file", which);
    loaded.is_average = weights.is_average;
    models::load_weights(model, weights.state, {});
  } catch (const Exception& exception) {
    throw Exception(exception.code(), shown(checkpoint.path) + ": " + exception.what());
  }
  return loaded;
}

void check_data(const DataShape& data, const Checkpoint& checkpoint) {
  const PtDict* own = as_checkpoint(checkpoint.content);
  const PtValue* learned = own == nullptr ? nullptr : own->find("data");
  if (learned == nullptr) return;
  try {
    training::check_meaning(data, *learned);
  } catch (const Exception& exception) {
    throw Exception(exception.code(), shown(checkpoint.path) + ": " + exception.what());
  }
}

std::string describe(const Checkpoint& checkpoint, const LoadedWeights& weights) {
  std::string text = shown(checkpoint.path);
  if (weights.position) text += fmt::format(" (step {})", training::with_thousands(weights.position->step));
  return weights.is_average ? text + ", the average of the weights" : text;
}

}  // namespace ddprun::commands
