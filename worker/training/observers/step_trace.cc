#include "worker/training/observers/step_trace.h"

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"
#include "worker/training/observers/text.h"

#include <ATen/record_function.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

// Its header includes Kineto's, which lie where libtorch's own are not looked for.
namespace torch::autograd::profiler {
TORCH_API void addMetadataJson(const std::string& key, const std::string& value);
}

namespace ddprun::training {
namespace {

namespace fs = std::filesystem;
namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

torch::profiler::impl::ProfilerConfig trace_config() {
  return torch::profiler::impl::ProfilerConfig(torch::profiler::impl::ProfilerState::KINETO);
}

std::set<ActivityType> trace_activities(const at::Device& device) {
  if (device.is_cuda()) return {ActivityType::CPU, ActivityType::CUDA};
  return {ActivityType::CPU};
}

/// Why no byte more can be written to the file, or 0.
int error_of_writing(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!fd) return errno;
  const std::array<char, 64 << 10> zeros{};
  const ssize_t written = ::write(fd.get(), zeros.data(), zeros.size());
  if (written == static_cast<ssize_t>(zeros.size())) return 0;
  return written < 0 ? errno : ENOSPC;
}

}  // namespace

/// A named range of the trace.
struct StepTrace::Range {
  explicit Range(const std::string& name) : record(at::RecordScope::USER_SCOPE) {
    if (record.isActive()) record.before(name);
  }
  at::RecordFunction record;
};

std::string steps_in_words(std::int64_t first, std::int64_t count) {
  return count == 1 ? fmt::format("step {}", first) : fmt::format("steps {} to {}", first, first + count - 1);
}

std::string missing_trace_in_words(const TraceOptions& options, std::int64_t before, std::int64_t last_step,
                                   std::int64_t traced) {
  if (options.steps == 0 || traced >= options.steps) return {};
  const std::string wanted = steps_in_words(options.first_step, options.steps);
  if (traced > 0) {
    return fmt::format("the trace has {} of {} steps: /log/trace is of {}, and this run ended after step {}",
                       traced, options.steps, wanted, last_step);
  }
  if (before >= options.first_step) {
    return fmt::format("no trace of this run: /log/trace is of {}, and it went on after step {}", wanted,
                       before);
  }
  return fmt::format("no trace: /log/trace is of {}, and this run ended after step {}", wanted, last_step);
}

StepTrace::StepTrace(const TraceOptions& options, Facts facts, Say say, Say warn)
    : options_(options), facts_(std::move(facts)), say_(std::move(say)), warn_(std::move(warn)) {}

StepTrace::~StepTrace() {
  if (state_ != State::kRunning) return;
  ranges_.clear();
  try {
    profiler::disableProfiler();
  } catch (const std::exception&) {
    // A training that failed has an error of its own to tell.
  }
}

void StepTrace::on_start(std::int64_t step) {
  before_ = step;
  if (facts_.rank == 0 && options_.steps > 0 && step < options_.first_step) put_earlier_trace_aside();
}

void StepTrace::put_earlier_trace_aside() {
  std::error_code error;
  if (!fs::is_directory(facts_.folder, error)) return;
  std::string aside;
  for (int number = 1; aside.empty() || fs::exists(aside, error); ++number)
    aside = fmt::format("{}.old-{}", facts_.folder, number);
  fs::rename(facts_.folder, aside, error);
  if (error) return warn_(fmt::format("cannot rename {} to {}: {}", facts_.folder, aside, error.message()));
  say_("the trace of an earlier run is now " + shown_path(aside, facts_.working_directory));
}

void StepTrace::before_step(std::int64_t number) {
  try {
    if (state_ == State::kWaiting && options_.steps > 0 &&
        (number == options_.first_step || number + 1 == options_.first_step)) {
      profiler::prepareProfiler(trace_config(), trace_activities(facts_.device));
      state_ = State::kWarm;
    }
    if (state_ == State::kWarm && number == options_.first_step) begin(number);
  } catch (const std::exception& exception) {
    state_ = State::kOver;
    warn_(fmt::format("cannot trace: {}; the training goes on", exception.what()));
  }
  if (state_ == State::kRunning)
    ranges_.push_back(std::make_unique<Range>(fmt::format("ProfilerStep#{}", number)));
}

void StepTrace::begin(std::int64_t number) {
  profiler::addMetadataJson(
      "distributedInfo",
      nlohmann::json{{"backend", facts_.backend}, {"rank", facts_.rank}, {"world_size", facts_.world_size}}
          .dump());
  synchronize();
  profiler::enableProfiler(trace_config(), trace_activities(facts_.device));
  first_ = number;
  state_ = State::kRunning;
}

void StepTrace::after_step() {
  if (state_ != State::kRunning) return;
  ranges_.clear();
  if (++traced_ < options_.steps) return;
  if (write() && facts_.rank == 0) {
    say_(fmt::format("traced {}: {} (a file for each rank, for ui.perfetto.dev)",
                     steps_in_words(first_, traced_), shown_path(facts_.folder, facts_.working_directory)));
  }
}

void StepTrace::on_end(std::int64_t step) {
  if (state_ == State::kOver && traced_ == 0) return;  // it could not begin, and that was said
  if (state_ == State::kRunning) {
    ranges_.clear();
    write();
  }
  const std::string missing = missing_trace_in_words(options_, before_, step, traced_);
  if (facts_.rank == 0 && !missing.empty()) say_(missing);
}

// A GPU runs behind: its kernels belong to the step that has launched them.
void StepTrace::synchronize() const {
  if (facts_.device.is_cuda())
    c10::impl::VirtualGuardImpl(facts_.device.type()).synchronizeDevice(facts_.device.index());
}

bool StepTrace::write() {
  state_ = State::kOver;
  const std::string path = fmt::format("{}/rank{}.json", facts_.folder, facts_.rank);
  std::optional<std::string> trouble;
  try {
    synchronize();
    const auto result = profiler::disableProfiler();
    trouble = trouble_with(path);
    if (!trouble) {
      // The profiler writes path.tmp and, when that is whole, renames it.
      result->save("file://" + path);
      if (!fs::exists(path)) {
        const int error = error_of_writing(path + ".tmp");
        trouble = os_error("cannot write " + path, error == 0 ? EIO : error).message();
        ::unlink((path + ".tmp").c_str());
      }
    }
  } catch (const std::exception& exception) {
    trouble = fmt::format("cannot write {}: {}", path, exception.what());
  }
  if (trouble) warn_(*trouble + "; the training goes on");
  return !trouble;
}

/// Whether a file can be made there; afterwards there is none.
std::optional<std::string> StepTrace::trouble_with(const std::string& path) const {
  std::error_code error;
  fs::create_directories(facts_.folder, error);
  if (error) return fmt::format("cannot create {}: {}", facts_.folder, error.message());
  const std::string draft = path + ".tmp";
  ::unlink(path.c_str());
  const UniqueFd fd(::open(draft.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  if (!fd) return os_error("cannot open " + draft, errno).message();
  return std::nullopt;
}

void StepTrace::begins(const char* name) { ranges_.push_back(std::make_unique<Range>(name)); }

void StepTrace::ends() {
  if (!ranges_.empty()) ranges_.pop_back();
}

}  // namespace ddprun::training
