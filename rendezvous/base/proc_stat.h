#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun {

/// A field of /proc/<pid>/stat by its number in proc(5), from 3 on: those before are the pid and the command, which
/// may hold any character. Empty where there is none. Pure.
std::string_view stat_field(std::string_view text, int number);

/// The same as a number; 0 where there is none. Pure.
std::uint64_t stat_number(std::string_view text, int number);

/// Seconds, of so many ticks of the clock by which /proc counts.
double seconds_of_ticks(std::uint64_t ticks);

/// How much of a process lies in the memory of the host, in bytes, by its folder: "/proc/self"; 0: it cannot be read.
std::uint64_t resident_bytes(const std::string& folder);

}  // namespace ddprun
