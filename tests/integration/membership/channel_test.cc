#include "rendezvous/membership/channel.h"

#include "tests/support/catch.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/write.hpp>

#include <string>
#include <variant>
#include <vector>

using namespace ddprun;
using namespace ddprun::membership;
using boost::asio::ip::tcp;

namespace {

/// A connection whose other end has said something and is gone, as a process finds it that stood still.
struct LastWords {
  boost::asio::io_context io;
  tcp::socket here{io};
  std::vector<Phase> heard;
  std::string why_closed;
  std::shared_ptr<Channel> channel;

  LastWords() {
    tcp::acceptor acceptor(io, {boost::asio::ip::address_v4::loopback(), 0});
    tcp::socket there(io);
    there.connect(acceptor.local_endpoint());
    acceptor.accept(here);
    std::string words;
    for (int i = 0; i < 500; ++i) words += encode(Status{.phase = Phase::kStopping});
    words += encode(Status{.phase = Phase::kIdle});
    boost::asio::write(there, boost::asio::buffer(words));
    there.close();
    // The other end's kernel answers what nobody will read there with a reset, and what is sent then fails.
    boost::asio::write(here, boost::asio::buffer(encode(Status{})));
  }
  void listen() {
    channel->start([this](const Message& message) { heard.push_back(std::get<Status>(message).phase); },
                   [this](Loss, const std::string& why) { why_closed = why; });
  }
};

}  // namespace

TEST_CASE("what the other side said last is heard, although nothing can be sent to it any more") {
  LastWords words;
  words.channel = Channel::make(std::move(words.here), {});
  words.channel->send(Status{});
  words.listen();
  words.io.run();
  REQUIRE(words.heard.size() == 501);
  CHECK(words.heard.back() == Phase::kIdle);
  CHECK(words.why_closed != "");
}

TEST_CASE("a channel that another replaces is read to its end first") {
  LastWords words;
  words.channel = Channel::make(std::move(words.here), {});
  words.listen();
  words.channel->read_out_and_close();
  CHECK(words.heard.size() == 501);
  words.io.run();
  CHECK(words.heard.size() == 501);
}
