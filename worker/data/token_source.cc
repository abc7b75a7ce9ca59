#include "worker/data/token_source.h"

#include "worker/data/read_file.h"
#include "worker/data/text_tokens.h"
#include "worker/runtime/throw_error.h"
#include "worker/transforms/random.h"
#include <ddprun/exception.h>

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

namespace ddprun::data {
namespace {

constexpr std::uint8_t kShiftStream = 3;
constexpr std::size_t kMetaLimit = std::size_t{16} << 20;

std::string read_text(const std::string& path, std::size_t limit) {
  const std::vector<std::uint8_t> bytes = runtime::value_or_throw(read_file(path, limit));
  return {bytes.begin(), bytes.end()};
}

std::int64_t vocabulary_of(const Options& options, const std::string& folder) {
  const std::int64_t given = options.integer("vocabulary");
  if (given > 0) return given;
  const std::string meta = folder + "/meta.json";
  if (!std::filesystem::exists(meta)) {
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("{}/vocabulary: the size of the vocabulary is not known, because {} is not there; "
                    "set it (50257 for GPT-2's tokens)",
                    options.pointer(), meta));
  }
  const std::int64_t read = Options(read_text(meta, kMetaLimit), meta + ":").integer("vocab_size");
  if (read >= 1 && read <= 65536) return read;
  throw Exception(ErrorCode::kCorrupt, fmt::format("{}: vocab_size is {}, expected 1 to 65536", meta, read));
}

/// With what both kinds of file take from the job: block, train_samples and test_samples.
DataSplits to_splits(Tokens train, Tokens held_out, TokenSourceOptions common, const Options& options) {
  common.block = options.integer("block");
  TokenSourceOptions shifted = common;
  shifted.start = WindowStart::kShifted;
  shifted.most_samples = options.integer("train_samples");
  common.most_samples = options.integer("test_samples");
  return {std::make_shared<TokenSource>(std::move(train), std::move(shifted)),
          std::make_shared<TokenSource>(std::move(held_out), std::move(common))};
}

}  // namespace

TokenSource::TokenSource(Tokens tokens, TokenSourceOptions options)
    : tokens_(std::move(tokens)), options_(std::move(options)) {
  const auto count = static_cast<std::int64_t>(tokens_.values.size());
  const std::int64_t block = options_.block;
  // The last window needs one token more, and all of them room for the largest shift.
  const std::int64_t spare = options_.start == WindowStart::kShifted ? block : 1;
  size_ = count > spare ? (count - spare) / block : 0;
  if (size_ == 0) {
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("{} has {} tokens, a window of {} needs at least {}; choose a smaller block, or more "
                    "text",
                    tokens_.name, count, block, block + spare));
  }
  if (options_.most_samples > 0) size_ = std::min(size_, options_.most_samples);
  shape_.tensors = {{"tokens", {block}, at::kLong}, {"next", {block}, at::kLong}};
  shape_.classes = options_.vocabulary;
  shape_.class_names = options_.names;
  shape_.unit = "tokens";
  shape_.units_per_sample = block;
}

Batch TokenSource::make_batch(const BatchRequest& request) const {
  if (const Result<void> whole = check_is_whole(tokens_); !whole) runtime::throw_error(whole.error());
  const auto count = static_cast<std::int64_t>(request.indices.size());
  const std::int64_t block = options_.block;
  const auto options = at::TensorOptions().dtype(at::kLong).pinned_memory(request.pinned);
  const at::Tensor inputs = at::empty({count, block}, options);
  const at::Tensor targets = at::empty({count, block}, options);
  std::int64_t shift = 0;
  if (options_.start == WindowStart::kShifted) {
    transforms::Random random({.seed = request.seed, .epoch = request.epoch, .stream = kShiftStream});
    shift = random.below(block);
  }
  std::int64_t* input = inputs.mutable_data_ptr<std::int64_t>();
  std::int64_t* target = targets.mutable_data_ptr<std::int64_t>();
  for (const std::int64_t index : request.indices) {
    const std::int64_t first = index * block + shift;
    for (std::int64_t i = 0; i <= block; ++i) {
      const std::int64_t token = tokens_.values[static_cast<std::size_t>(first + i)];
      if (token >= options_.vocabulary) {
        throw Exception(ErrorCode::kCorrupt,
                        fmt::format("{}: token {} is {}, and the vocabulary ends at {}; {}", tokens_.name,
                                    first + i, token, options_.vocabulary - 1, tokens_.remedy));
      }
      if (i < block) *input++ = token;
      if (i > 0) *target++ = token;
    }
  }
  return {{inputs, targets}, count};
}

DataSplits open_token_files(const Options& options) {
  const std::string folder = options.text("path");
  return to_splits(runtime::value_or_throw(map_tokens(folder + "/train.bin")),
                   runtime::value_or_throw(map_tokens(folder + "/val.bin")),
                   {.vocabulary = vocabulary_of(options, folder)}, options);
}

DataSplits open_text_file(const Options& options) {
  const std::string path = options.text("path");
  const double share = options.number("held_out_share");
  TextTokens text = runtime::value_or_throw(load_text(path));
  const auto all = text.tokens.values;
  // As nanoGPT cuts: the length of the first part is rounded down.
  const auto cut = static_cast<std::size_t>((1.0 - share) * static_cast<double>(all.size()));
  Tokens train{all.first(cut), text.tokens.owner, path};
  Tokens held_out{all.subspan(cut), text.tokens.owner, path + " (held out)"};
  return to_splits(
      std::move(train), std::move(held_out),
      {.vocabulary = static_cast<std::int64_t>(text.characters.size()), .names = text.characters}, options);
}

}  // namespace ddprun::data
