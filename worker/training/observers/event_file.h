#pragma once

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::training {

/// One number of a TensorBoard summary.
struct Scalar {
  std::string tag;  ///< "train/loss"
  double value = 0;
};

/// An Event message of TensorBoard with `scalars`. `time` is in seconds since 1970. Pure.
/// Source  tensorboard/compat/proto/event.proto and summary.proto: tags 1, 2 and 5; 1 and 2
[[nodiscard]] std::string encode_event(double time, std::int64_t step, const std::vector<Scalar>& scalars);

/// An Event that begins a session at `step`: TensorBoard drops what it has of that step and later ones. Pure.
/// Source  event.proto: session_log is tag 7, its status START is 1
[[nodiscard]] std::string encode_session_start(double time, std::int64_t step);

/// The first Event of a file: it names the format.
[[nodiscard]] std::string encode_version(double time);

/// `event` as a record of a file: length, CRC of the length, event, CRC of the event. Pure.
/// Source  tensorflow/core/lib/io/record_writer.cc: CRC-32C, rotated and shifted
[[nodiscard]] std::string encode_record(std::string_view event);

/// An event file that TensorBoard reads while it grows: events.out.tfevents.<seconds>.<host>.<pid>.
class EventFile {
 public:
  /// Makes `folder`. Errors: kOs, naming it.
  static Result<EventFile> create(const std::string& folder);

  /// Appends an event of now. False: the disk did not take it, and the file ends here, since what follows a torn
  /// record is not read.
  bool append(std::int64_t step, const std::vector<Scalar>& scalars);
  /// The same for the beginning of a session (encode_session_start).
  bool append_session_start(std::int64_t step);

 private:
  bool append_event(const std::string& event);

  UniqueFd fd_;
};

}  // namespace ddprun::training
