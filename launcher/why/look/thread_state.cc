#include "launcher/why/look/thread_state.h"

#include "launcher/why/look/system_calls.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace ddprun::launcher::why {
namespace {

constexpr std::uint64_t kSomeWaits = 3;

struct Shares {
  double running = 0;
  double queued = 0;
};

/// Of the thread that ran, or wanted to, the longest.
Shares busiest(const ProcessLook& first, const ProcessLook& second) {
  Shares most;
  const double time = second.at_s - first.at_s;
  if (time <= 0) return most;
  for (const ThreadLook& now : second.threads) {
    const auto before = std::find_if(first.threads.begin(), first.threads.end(),
                                     [&](const auto& t) { return t.tid == now.tid; });
    if (before == first.threads.end()) continue;
    const Shares shares{(now.cpu_s - before->cpu_s) / time, (now.queued_s - before->queued_s) / time};
    if (shares.running + shares.queued > most.running + most.queued) most = shares;
  }
  return most;
}

const ThreadLook* main_thread(const ProcessLook& look) {
  return look.threads.empty() ? nullptr : &look.threads.front();
}

/// A page is the least that the kernel counts of storage, also for a line of a log.
std::uint64_t more_of(std::uint64_t by_calls, std::uint64_t of_storage) {
  constexpr std::uint64_t kMoreThanLogs = 256 << 10;
  return of_storage >= kMoreThanLogs ? std::max(by_calls, of_storage) : by_calls;
}

}  // namespace

double busy_share(const ProcessLook& first, const ProcessLook& second) {
  const Shares shares = busiest(first, second);
  return shares.running + shares.queued;
}

double running_share(const ProcessLook& first, const ProcessLook& second) {
  return busiest(first, second).running;
}

bool flushes(const ProcessLook& first, const ProcessLook& second) {
  const ThreadLook* const before = main_thread(first);
  const ThreadLook* const now = main_thread(second);
  if (before == nullptr || now == nullptr) return false;
  // Between two pages it runs, and then its call is not shown.
  return (is_flush(before->call.number) || is_flush(now->call.number)) &&
         now->switches >= before->switches + kSomeWaits;
}

std::uint64_t bytes_read(const ProcessLook& first, const ProcessLook& second) {
  return more_of(second.read_bytes - first.read_bytes, second.storage_read_bytes - first.storage_read_bytes);
}

std::uint64_t bytes_written(const ProcessLook& first, const ProcessLook& second) {
  return more_of(second.written_bytes - first.written_bytes,
                 second.storage_written_bytes - first.storage_written_bytes);
}

double bytes_per_second(const ProcessLook& first, const ProcessLook& second) {
  const double time = second.at_s - first.at_s;
  if (time <= 0) return 0;
  return static_cast<double>(bytes_read(first, second) + bytes_written(first, second)) / time;
}

double major_faults_per_second(const ProcessLook& first, const ProcessLook& second) {
  const double time = second.at_s - first.at_s;
  const ThreadLook* const before = main_thread(first);
  const ThreadLook* const now = main_thread(second);
  if (time <= 0 || before == nullptr || now == nullptr) return 0;
  return static_cast<double>(now->major_faults - before->major_faults) / time;
}

bool gets_on(const ProcessLook& first, const ProcessLook& second) {
  constexpr double kSomeBytes = 4096;
  const ThreadLook* const before = main_thread(first);
  const ThreadLook* const now = main_thread(second);
  if (before == nullptr || now == nullptr) return false;
  const bool receives = now->wait_channel == "sk_wait_data" && now->switches >= before->switches + kSomeWaits;
  return receives || flushes(first, second) || busy_share(first, second) > kBusyShare ||
         bytes_per_second(first, second) >= kSomeBytes ||
         major_faults_per_second(first, second) > kManyFaults;
}

bool does_anything(const ProcessLook& first, const ProcessLook& second) {
  constexpr double kSomeCpu = 0.002;
  return gets_on(first, second) || running_share(first, second) > kSomeCpu ||
         first.threads.size() != second.threads.size();
}

bool has_nccl(const ProcessLook& look) {
  return std::any_of(look.threads.begin(), look.threads.end(), is_nccls);
}

bool is_more_than_signs_of_life(std::uint64_t bytes, double seconds) {
  constexpr double kBytesPerSecond = 1024;
  return static_cast<double>(bytes) > kBytesPerSecond * seconds;
}

bool is_stopped(const ProcessLook& look) {
  const ThreadLook* const main = main_thread(look);
  return main != nullptr && main->state == "T";
}

bool is_looked_at(const ProcessLook& look) {
  constexpr std::array<std::string_view, 4> kLookers{"ddprun", "why-look", "hang-watch", "py-spy"};
  return look.tracer != 0 && std::find(kLookers.begin(), kLookers.end(), look.tracer_name) != kLookers.end();
}

bool is_traced(const ProcessLook& look) {
  const ThreadLook* const main = main_thread(look);
  return !is_looked_at(look) && main != nullptr && main->state == "t";
}

bool is_in_kernel(const ProcessLook& look) {
  const ThreadLook* const main = main_thread(look);
  return main != nullptr && (main->state == "D" || awaits_file_server(*main));
}

bool awaits_file_server(const ThreadLook& thread) {
  return thread.wait_channel.find("request_wait_answer") != std::string::npos;
}

bool may_be_stopped(const ProcessLook& look) {
  if (look.is_frozen || is_stopped(look) || look.tracer != 0) return false;
  return std::none_of(look.threads.begin(), look.threads.end(), [](const ThreadLook& thread) {
    return thread.state == "D" || awaits_file_server(thread);
  });
}

}  // namespace ddprun::launcher::why
