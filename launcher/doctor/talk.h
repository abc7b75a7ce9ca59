#pragma once

#include "launcher/doctor/hosts.h"
#include "rendezvous/base/ids.h"
#include "rendezvous/base/result.h"
#include "rendezvous/membership/messages.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace ddprun::launcher::doctor_talk {

// What the hosts of `ddprun doctor` and the meeting say to each other, after the handshake of the agents. Pure.
//
//   host                  meeting
//   Sheet            →
//                    ←    TellTime           some times
//   Time             →
//                         … all have come, or their time is over
//                    ←    ProbeOne           hosts − 1 times
//   Probed           →
//                    ←    PagePart           until the last

/// "job" of the handshake.
inline constexpr const char* kRunId = "ddprun doctor";

/// How a host may be probed: who begins a connection with `token` there gets each byte back, up to a kStreamBegins;
/// all after that is counted, and once the connection's other half has ended, the count comes back, as eight bytes,
/// big-endian.
struct ProbePlace {
  Port port;
  std::string token;
};
inline constexpr char kEcho = 'e';
inline constexpr char kStreamBegins = 's';

struct Sheet {
  HostSheet sheet;
  ProbePlace place;
};

struct TellTime {
  std::chrono::milliseconds silence{};  ///< the meeting may have nothing to say for so long
};

struct Time {
  std::int64_t unix_ns = 0;
};

struct ProbeOne {
  std::string address;  ///< empty: that at which the meeting is reached
  ProbePlace place;
  std::chrono::milliseconds stream{};  ///< how long to send
};

struct Probed {
  std::string error;
  std::optional<double> round_trip;
  double bits_per_second = 0;
};

struct PagePart {
  std::string text;
  bool is_last = false;
  bool is_wrong = false;  ///< of the last
};

using Words = std::variant<Sheet, TellTime, Time, ProbeOne, Probed, PagePart>;

/// Text of others' making is made fit for one line, and cut, on both sides.
membership::DoctorWords encode(const Words& words);

/// Errors  kCorrupt: nothing that a doctor says, and why.
Result<Words> parse(const membership::DoctorWords& words);

/// The page in parts that fit.
std::vector<PagePart> parts_of(const std::string& page, bool is_wrong);

}  // namespace ddprun::launcher::doctor_talk
