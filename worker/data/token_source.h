#pragma once

#include "worker/data/token_file.h"
#include <ddprun/trainer/data_source.h>
#include <ddprun/trainer/options.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::data {

/// Where the windows of a TokenSource begin.
enum class WindowStart {
  kFixed,    ///< at multiples of the block
  kShifted,  ///< all moved by a number below the block, drawn for each epoch: over epochs every place is seen
};

struct TokenSourceOptions {
  std::int64_t block = 256;  ///< tokens of a sample
  std::int64_t vocabulary = 0;
  WindowStart start = WindowStart::kFixed;
  std::int64_t most_samples = 0;     ///< 0: all there are
  std::vector<std::string> names{};  ///< of the tokens, if they have some
};

/// Windows of a row of tokens: "tokens", int64 [block], and "next", the same moved on by one. The windows of an
/// epoch do not overlap; what is left over at the end is not used.
class TokenSource final : public DataSource {
 public:
  /// Errors  Exception kConfig: fewer tokens than one window takes.
  TokenSource(Tokens tokens, TokenSourceOptions options);

  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] const DataShape& shape() const override { return shape_; }
  /// Errors  Exception kCorrupt: a token beyond the vocabulary; the file is shorter than it was.
  [[nodiscard]] Batch make_batch(const BatchRequest& request) const override;

 private:
  Tokens tokens_;
  TokenSourceOptions options_;
  std::int64_t size_;
  DataShape shape_;
};

/// train.bin and val.bin of the folder "path"; the size of the vocabulary is "vocabulary", or vocab_size of
/// meta.json beside them.
DataSplits open_token_files(const Options& options);

/// The characters of the text file "path": the last "held_out_share" of them are held out.
DataSplits open_text_file(const Options& options);

}  // namespace ddprun::data
