#pragma once

#include "worker/data/transfer.h"

#include <cstdint>

namespace ddprun::data {

/// What follows an answer of a server, or a look at what it has brought.
enum class DownloadMove {
  kCheck,      ///< it is whole: is its sum right?
  kGoOn,       ///< ask the same server for the rest
  kBeginAnew,  ///< the same server, without the bytes that are here
  kNextPlace,  ///< another server; the bytes stay
  kDone,
};

/// Answers of one server that may end too early, for one file.
inline constexpr int kMostAnswers = 5;

struct DownloadAnswer {
  TransferEnd end = TransferEnd::kWhole;
  std::int64_t offset = 0;    ///< bytes that were here before it
  std::int64_t received = 0;  ///< bytes that it brought
  int answers = 1;            ///< of this server for this file, this one included
};

/// Who brought something is asked for the rest; who brings nothing is left. Pure.
DownloadMove after_answer(const DownloadAnswer& answer);

/// The same for a file that is whole. Bytes of an earlier day may be another file's: then it is asked for all of it.
DownloadMove after_check(bool is_right, std::int64_t offset);

}  // namespace ddprun::data
