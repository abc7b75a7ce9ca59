#include "rendezvous/base/name_lookup.h"

#include "rendezvous/base/gate.h"
#include "rendezvous/base/quiet_thread.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

namespace ddprun {
namespace {

Error unresolved(const std::string& host, std::string why) {
  if (!why.empty()) why.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(why.front())));
  return {ErrorCode::kUnavailable, fmt::format("the name {} cannot be resolved ({})", host, why)};
}

}  // namespace

Result<HostAddresses> look_up(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int problem = ::getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (problem == EAI_SYSTEM) return unresolved(host, std::strerror(errno));
  if (problem != 0) return unresolved(host, ::gai_strerror(problem));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(list, &::freeaddrinfo);
  HostAddresses addresses;
  for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(each->ai_addr, each->ai_addrlen, text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) != 0)
      continue;
    if (std::find(addresses.begin(), addresses.end(), text.data()) == addresses.end())
      addresses.emplace_back(text.data());
  }
  return addresses;
}

// The way back to the loop, which a thread that is left behind finds closed.
struct NameLookup::Door {
  explicit Door(boost::asio::io_context& io) : work(io.get_executor()) {}

  std::mutex mutex;
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>>
      work;        // none: closed
  Gate gate;       // passed and closed under the mutex
  OnDone on_done;  // the loop's alone

  void close() {
    const std::lock_guard lock(mutex);
    gate.close();
    work.reset();
  }
  void answer(const std::shared_ptr<Door>& self, Result<HostAddresses> found) {
    const std::lock_guard lock(mutex);
    if (!work) return;
    boost::asio::post(work->get_executor(), gate.pass([self, found = std::move(found)] {
      self->close();
      std::exchange(self->on_done, nullptr)(found);
    }));
  }
};

NameLookup::~NameLookup() {
  if (!door_) return;
  door_->close();
  door_->on_done = nullptr;
}

void NameLookup::start(const std::string& host, OnDone on_done) {
  door_ = std::make_shared<Door>(io_);
  door_->on_done = std::move(on_done);
  std::thread thread;
  const int problem = start_quietly(thread, [host, door = door_] { door->answer(door, look_up(host)); });
  if (problem == 0) return thread.detach();
  door_->answer(door_, unresolved(host, fmt::format("no thread can be started: {}", std::strerror(problem))));
}

}  // namespace ddprun
