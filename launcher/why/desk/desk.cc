#include "launcher/why/desk/desk.h"

#include "launcher/report/job_state.h"
#include "launcher/why/desk/other_nodes.h"
#include "launcher/why/facts/facts_json.h"
#include "launcher/why/facts/fit.h"
#include "launcher/why/look/look.h"
#include "launcher/why/look/proc_look.h"
#include "launcher/why/look/settle.h"
#include "rendezvous/base/print.h"

#include <boost/asio/buffer.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

namespace ddprun::launcher::why {
namespace {

constexpr std::size_t kMostNodes = 64;  // that hear what one look finds
constexpr std::size_t kMostOfOnePart = 16384;
constexpr std::size_t kMostWaiting = 8 * 1024 * 1024;
constexpr auto kLookTime = std::chrono::seconds(10);
constexpr auto kNumbersTime = std::chrono::milliseconds(1500);  // whoever asked has given up by then
constexpr std::size_t kMostAskers = 8;

std::int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// In the process beside the launcher, with the launcher's own priority: whoever asks waits for seconds alone, and what
/// hangs has often left somebody who spins.
void look_and_tell(pid_t launcher, std::size_t most_bytes, const QuietSince& quiet, int out) {
  const std::optional<PublishedJob> state = parse_job_state(read_job_state(launcher));
  if (!state || !has_ranks(state->phase)) return;  // they would be those of another round, or nobody's
  JobPicture picture = picture_of(*state, launcher, {});
  picture.ranks = look_at_ranks(targets_of(*state), {});
  settle(picture);
  see_launcher_connections(picture);
  if (!has_ranks(picture.phase)) return;
  const std::int64_t now = now_ns();
  // Every host has a clock of its own: what is told to another counts from now.
  const std::optional<double> quiet_since = quiet.told();
  for (RankFacts& facts : picture.ranks) {
    shift_times(facts, -now);
    if (quiet_since) facts.quiet_s = std::max(0.0, boot_time() - *quiet_since);
  }
  const std::size_t share = most_bytes / std::max<std::size_t>(picture.ranks.size(), 1);
  for (RankFacts& facts : picture.ranks) {
    if (share < 2 || !print_all(out, to_text(fit(std::move(facts), share - 1)) + "\n")) return;
  }
}

/// The writing end of a pipe that the process has.
UniqueFd open_pipe_of(pid_t process, int descriptor) {
  UniqueFd pipe(::open(fmt::format("/proc/{}/fd/{}", process, descriptor).c_str(),
                       O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  struct stat facts {};
  if (!pipe || ::fstat(pipe.get(), &facts) != 0 || !S_ISFIFO(facts.st_mode)) return {};
  return pipe;
}

}  // namespace

std::string to_text(const LookAnswer& part) {
  nlohmann::json line{{"from", part.from}, {"node", part.node}, {"text", part.text}, {"last", part.is_last}};
  if (part.is_older) line["older"] = true;
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<LookAnswer> parse_look_answer(std::string_view line) {
  const nlohmann::json parsed = nlohmann::json::parse(line, nullptr, false);
  try {
    return LookAnswer{.number = 0,
                      .from = parsed.at("from"),
                      .node = parsed.at("node"),
                      .text = parsed.at("text"),
                      .is_last = parsed.at("last"),
                      .is_older = parsed.value("older", false)};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

Desk::Look::Look(boost::asio::io_context& io, Beside started)
    : process(std::move(started)), descriptor(io, process.release_said()), deadline(io) {}

Desk::Desk(boost::asio::io_context& io, NumbersWork numbers, const QuietSince& quiet)
    : io_(io),
      quiet_(quiet),
      numbers_(io, numbers,
               [this](std::uint64_t number, std::string_view text, bool is_last) {
                 if (line_ != nullptr)
                   line_->answer({.number = number, .text = std::string(text), .is_last = is_last});
               }),
      why_asker_(std::make_shared<Asker>(io)) {}

void Desk::close() {
  line_ = nullptr;
  gate_.close();
  forget(*why_asker_);
  for (const AskerPtr& asker : numbers_askers_) forget(*asker);
  numbers_askers_.clear();
  numbers_.close();
  look_.reset();
}

// ---- other nodes ask

void Desk::wanted(std::uint64_t number, std::size_t most_bytes, LookKind kind) {
  if (line_ == nullptr) return;
  if (kind == LookKind::kNumbers) return numbers_.wanted(number, most_bytes);
  look(number, most_bytes);
}

void Desk::look(std::uint64_t number, std::size_t most_bytes) {
  if (!look_ && !begin_look(most_bytes)) return line_->answer({.number = number, .is_last = true});
  look_->bytes_left.erase(number);  // a coordinator that is new counts from one
  if (look_->bytes_left.size() >= kMostNodes)
    return line_->answer({.number = number, .text = std::string(kBusyAnswer), .is_last = true});
  look_->bytes_left[number] = most_bytes;
  tell(number, look_->said);
}

bool Desk::begin_look(std::size_t most_bytes) {
  Result<Beside> process = start_beside("why-look", [this, launcher = ::getpid(), most_bytes](int out) {
    look_and_tell(launcher, most_bytes, quiet_, out);
  });
  if (!process) return false;
  look_ = std::make_unique<Look>(io_, std::move(*process));
  ++look_turn_;
  look_->deadline.set_after(kLookTime, [this] { end_look(); });
  read();
  return true;
}

void Desk::read() {
  look_->descriptor.async_read_some(
      boost::asio::buffer(look_->buffer),
      gate_.pass([this, turn = look_turn_](boost::system::error_code error, std::size_t count) {
        if (!look_ || look_turn_ != turn) return;  // that of a look that was given up
        if (error) return end_look();
        const std::string_view text(look_->buffer.data(), count);
        look_->said += text;
        std::vector<std::uint64_t> numbers;
        for (const auto& [number, left] : look_->bytes_left) numbers.push_back(number);
        for (const std::uint64_t number : numbers) tell(number, text);
        if (look_->bytes_left.empty()) return end_look();
        read();
      }));
}

void Desk::tell(std::uint64_t number, std::string_view text) {
  std::size_t& left = look_->bytes_left.at(number);
  if (text.size() > left) {
    look_->bytes_left.erase(number);
    return line_->answer({.number = number, .is_last = true});
  }
  left -= text.size();
  for (; !text.empty(); text.remove_prefix(std::min(text.size(), kMostOfOnePart)))
    line_->answer({.number = number, .text = std::string(text.substr(0, kMostOfOnePart))});
}

void Desk::end_look() {
  const std::unique_ptr<Look> look = std::move(look_);
  for (const auto& [number, left] : look->bytes_left) line_->answer({.number = number, .is_last = true});
}

// ---- this host asks

void Desk::asked_by(pid_t process, int descriptor, LookKind kind) {
  UniqueFd pipe = open_pipe_of(process, descriptor);
  if (!pipe || line_ == nullptr) return;
  if (kind == LookKind::kNumbers) return numbers_asked_by(process, descriptor, std::move(pipe));
  if (why_asker_->pipe.is_open() && why_question_.is_under_way(kWhyAnswerTime)) {
    const bool is_its_own = why_asker_->process == process && why_asker_->descriptor == descriptor;
    if (!is_its_own) static_cast<void>(::write(pipe.get(), kAskLater.data(), kAskLater.size()) < 0);
    return;
  }
  forget(*why_asker_);
  why_asker_->pipe.assign(pipe.release());
  why_asker_->process = process;
  why_asker_->descriptor = descriptor;
  why_question_ = {.number = question_ + 1, .began = BootClock::now(), .is_over = false};
  ask(why_asker_, kind);
}

void Desk::HostQuestion::take(const LookAnswer& part) {
  if (part.from == 0) {
    are_all_named = true;
  } else if (part.is_last) {
    silent.erase(part.from);
  } else {
    silent.insert(part.from);
  }
  is_over = is_over || (are_all_named && silent.empty());
}

bool Desk::HostQuestion::is_under_way(Duration most) const {
  return !is_over && BootClock::now() - began < most;
}

void Desk::numbers_asked_by(pid_t process, int descriptor, UniqueFd pipe) {
  HostQuestion& question = numbers_question_;
  const bool joins = question.is_under_way(kNumbersTime);
  const auto hears_already = [&](const AskerPtr& asker) {
    return asker->process == process && asker->descriptor == descriptor &&
           asker->question == question.number && asker->pipe.is_open();
  };
  if (joins && std::any_of(numbers_askers_.begin(), numbers_askers_.end(), hears_already)) return;
  // Who has heard all that there is to an older question, or has given up.
  std::erase_if(numbers_askers_, [&](const AskerPtr& asker) {
    return asker->writing.empty() && !(joins && asker->question == question.number);
  });
  if (numbers_askers_.size() >= kMostAskers) {
    forget(*numbers_askers_.front());
    numbers_askers_.erase(numbers_askers_.begin());
  }
  const AskerPtr asker = numbers_askers_.emplace_back(std::make_shared<Asker>(io_));
  asker->process = process;
  asker->descriptor = descriptor;
  asker->pipe.assign(pipe.release());
  if (joins) {
    asker->question = question.number;
    return say(asker, numbers_said_);
  }
  numbers_said_.clear();
  question = {.number = question_ + 1, .began = BootClock::now(), .is_over = false};
  ask(asker, LookKind::kNumbers);
}

void Desk::ask(const AskerPtr& asker, LookKind kind) {
  asker->question = ++question_;
  const Asked asked = line_->ask(asker->question, kind);
  if (asked == Asked::kAll) return;
  // Nobody to be asked: that is the whole answer.
  answered(
      {.number = asker->question,
       .node = asked == Asked::kNobody
                   ? "this node has lost its coordinator"
                   : "the coordinator is of an older ddprun, which does not ask the other nodes for this",
       .is_last = true});
}

void Desk::answered(const LookAnswer& part) {
  if (part.number == numbers_question_.number) return numbers_answered(part);
  if (part.number != why_asker_->question) return;
  why_question_.take(part);
  say(why_asker_, to_text(part) + "\n");
}

void Desk::numbers_answered(const LookAnswer& part) {
  HostQuestion& question = numbers_question_;
  const std::string text = to_text(part) + "\n";
  question.take(part);
  numbers_said_ += text;
  question.is_over = question.is_over || numbers_said_.size() > kMostWaiting;
  for (const AskerPtr& asker : numbers_askers_) {
    if (asker->question == question.number) say(asker, text);
  }
  if (question.is_over) numbers_said_.clear();
}

void Desk::say(const AskerPtr& asker, const std::string& text) {
  if (!asker->pipe.is_open()) return;
  asker->to_write += text;
  if (asker->to_write.size() > kMostWaiting) return forget(*asker);
  if (asker->writing.empty()) write(asker);
}

void Desk::write(const AskerPtr& asker) {
  if (asker->writing.empty()) asker->writing = std::exchange(asker->to_write, {});
  if (asker->writing.empty()) return;
  asker->pipe.async_write_some(
      boost::asio::buffer(asker->writing),
      gate_.pass([this, asker, mine = asker->turn](boost::system::error_code error, std::size_t count) {
        if (mine != asker->turn) return;
        if (error) return forget(*asker);
        asker->writing.erase(0, count);
        write(asker);
      }));
}

void Desk::forget(Asker& asker) {
  ++asker.turn;
  boost::system::error_code ignored;
  asker.pipe.close(ignored);
  asker.to_write.clear();
  asker.writing.clear();
}

}  // namespace ddprun::launcher::why
