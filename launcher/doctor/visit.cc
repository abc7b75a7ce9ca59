#include "launcher/doctor/visit.h"

#include "rendezvous/base/format_duration.h"
#include "rendezvous/base/print.h"
#include "rendezvous/base/printable.h"
#include "rendezvous/membership/auth.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace ddprun::launcher {
namespace {

using boost::asio::ip::tcp;

constexpr auto kPause = std::chrono::milliseconds(500);
constexpr auto kSaySomethingAfter = std::chrono::seconds(2);
constexpr auto kHandshakeTime = std::chrono::seconds(10);
constexpr auto kBeyondSilence = std::chrono::seconds(10);  // of the meeting, for the way and a busy machine
constexpr std::size_t kLongestPage = 4 * 1024 * 1024;

}  // namespace

Visit::Visit(boost::asio::io_context& io, VisitOptions options, const ProbeTarget& target)
    : io_(io), options_(std::move(options)), target_(target), timer_(io), notice_(io) {}

void Visit::start(OnEnd on_end) {
  on_end_ = std::move(on_end);
  began_ = BootClock::now();
  try_once();
}

void Visit::try_once() {
  const HostAddresses here = options_.is_here ? HostAddresses{"127.0.0.1", "::1"} : HostAddresses();
  connector_ = std::make_unique<membership::Connector>(io_, options_.is_here ? "127.0.0.1" : options_.host,
                                                       options_.port, here);
  connector_->start([this](std::optional<tcp::socket> socket, const std::string& tried) {
    if (socket) return greet(std::move(*socket));
    try_again(tried);
  });
}

// Hosts are not started in the same moment, and nobody tells when the first one is there.
void Visit::try_again(const std::string& tried) {
  const Duration waited = BootClock::now() - began_;
  if (waited >= options_.timeout) {
    return stay_alone(
        fmt::format("nobody at {} within {}: {}", options_.endpoint, format_duration(options_.timeout),
                    tried),
        fmt::format(
            "is ddprun doctor started there, with the same words? what drops packets to port {}: nft list "
            "ruleset, iptables -S, security groups; ip route get says where they go",
            options_.port));
  }
  if (!has_said_ && waited >= kSaySomethingAfter) {
    has_said_ = true;
    print_all(STDERR_FILENO,
              fmt::format("ddprun doctor: nobody at {} yet: {}; trying for {} more\n", options_.endpoint,
                          tried, format_duration(options_.timeout - waited)));
  }
  timer_.set_after(std::min<Duration>(kPause, options_.timeout - waited), [this] { try_once(); });
}

void Visit::greet(tcp::socket socket) {
  membership::Hello hello{.run_id = doctor_talk::kRunId,
                          .min_nodes = options_.hosts,
                          .max_nodes = options_.hosts,
                          .nonce = membership::make_nonce()};
  hello.node.host = options_.sheet.host;
  if (options_.node_rank) hello.node.pinned = NodeRank(*options_.node_rank);
  handshake_.emplace(std::move(hello), options_.secret);
  channel_ = membership::Channel::make(std::move(socket), {});
  channel_->start(gate_.pass([this](const membership::Message& message) { handle(message); }),
                  gate_.pass([this](membership::Loss, const std::string& why) {
                    stay_alone(
                        fmt::format("{} was lost before the page was made: {}", options_.endpoint, why),
                        "was ddprun doctor ended there? start all of them again");
                  }));
  channel_->send_bytes(handshake_->first_bytes());
  expect_word_within(kHandshakeTime);
}

void Visit::expect_word_within(Duration silence) {
  silence_ = silence;
  timer_.set_after(silence, [this] {
    stay_alone(
        fmt::format("{} says nothing for {}", options_.endpoint, format_duration(silence_)),
        "is it ddprun doctor that has this port, and not a job or another program? a network that loses what "
        "is long does this, too: one MTU on all hosts");
  });
}

void Visit::handle(const membership::Message& message) {
  if (!handshake_->is_in())
    return std::visit([this](const auto& each) { go_on(each); }, handshake_->handle(message));
  if (const auto* refused = std::get_if<membership::Refused>(&message)) return go_on(*refused);
  const auto* said = std::get_if<membership::DoctorWords>(&message);
  const Result<doctor_talk::Words> words =
      said == nullptr ? Result<doctor_talk::Words>(Error(ErrorCode::kCorrupt, "it says what no doctor says"))
                      : doctor_talk::parse(*said);
  if (!words) return stay_alone(words.error().message(), "use one release of ddprun on all hosts");
  expect_word_within(silence_);
  std::visit([this](const auto& each) { answer(each); }, *words);
}

void Visit::go_on(const membership::Welcome&) {
  channel_->send(doctor_talk::encode(doctor_talk::Sheet{options_.sheet, target_.place()}));
  if (options_.is_here) return;  // the meeting says who is awaited
  notice_.set_after(kSaySomethingAfter, [this] {
    print_all(STDERR_FILENO, fmt::format("ddprun doctor: waiting at {} for the others\n", options_.endpoint));
  });
}

void Visit::go_on(const membership::Refused& refused) {
  stay_alone(fmt::format("{} refuses this host: {}", options_.endpoint, refused.reason), {});
}

void Visit::go_on(const Error& error) {
  stay_alone(fmt::format("{} {}", options_.endpoint, error.message()), {});
}

void Visit::answer(const doctor_talk::TellTime& asked) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  channel_->send(doctor_talk::encode(
      doctor_talk::Time{std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()}));
  expect_word_within(asked.silence + kBeyondSilence);
}

void Visit::answer(const doctor_talk::ProbeOne& asked) {
  notice_.cancel();
  const std::string address = asked.address.empty() ? channel_->remote_address().to_string() : asked.address;
  call_ = std::make_unique<ProbeCall>(io_, address, asked);
  call_->start([this](const doctor_talk::Probed& probed) { channel_->send(doctor_talk::encode(probed)); });
}

void Visit::answer(const doctor_talk::PagePart& part) {
  notice_.cancel();
  page_ += part.text;
  if (page_.size() > kLongestPage)
    return stay_alone("it says more than a page", "use one release of ddprun on all hosts");
  if (part.is_last)
    end({.page = ddprun::printable_lines(page_), .is_wrong = part.is_wrong, .why = {}, .mend = {}});
}

void Visit::stay_alone(const std::string& why, const std::string& mend) {
  end({.page = {},
       .is_wrong = true,
       .why = ddprun::printable(why, membership::kMaxSentenceBytes),
       .mend = mend});
}

void Visit::end(VisitEnd end) {
  gate_.close();
  timer_.close();
  notice_.close();
  connector_.reset();
  call_.reset();
  if (channel_) channel_->close();
  const OnEnd on_end = std::exchange(on_end_, nullptr);
  if (on_end) on_end(std::move(end));
}

}  // namespace ddprun::launcher
