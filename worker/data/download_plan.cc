#include "worker/data/download_plan.h"

namespace ddprun::data {

DownloadMove after_answer(const DownloadAnswer& answer) {
  const bool may_ask_again = answer.answers < kMostAnswers;
  switch (answer.end) {
    case TransferEnd::kWhole:
      return DownloadMove::kCheck;
    case TransferEnd::kCut:
    case TransferEnd::kSilent:
      return answer.received > 0 && may_ask_again ? DownloadMove::kGoOn : DownloadMove::kNextPlace;
    case TransferEnd::kNoRanges:
      return answer.offset > 0 && may_ask_again ? DownloadMove::kBeginAnew : DownloadMove::kNextPlace;
    case TransferEnd::kRefused:
    case TransferEnd::kUnreachable:
    case TransferEnd::kRejected:
    case TransferEnd::kStopped:
      return DownloadMove::kNextPlace;
  }
  return DownloadMove::kNextPlace;
}

DownloadMove after_check(bool is_right, std::int64_t offset) {
  if (is_right) return DownloadMove::kDone;
  return offset > 0 ? DownloadMove::kBeginAnew : DownloadMove::kNextPlace;
}

}  // namespace ddprun::data
