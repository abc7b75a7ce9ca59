#pragma once

#include "rendezvous/store/server.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

namespace ddprun::testing {

/// A StoreServer on a free loopback port, served by a thread of its own; ended with the object.
class RunningStore {
 public:
  explicit RunningStore(store::StoreServerOptions options = {},
                        std::shared_ptr<Logger> logger = make_null_logger())
      : logger_(std::move(logger)) {
    if (!options.inherited_fd && options.at.host.empty()) options.at.host = "127.0.0.1";
    server_ = std::move(store::StoreServer::open(io_, options, *logger_).value());
    port_ = server_->port();
    thread_ = std::thread([this] { io_.run(); });
  }

  ~RunningStore() {
    call([this] { server_->close(); });
    keeps_running_.reset();
    thread_.join();  // returns only if the server has left nothing pending
  }

  [[nodiscard]] Port port() const { return port_; }

  /// Runs `action` on the server's thread and waits for it.
  template <class Action>
  std::invoke_result_t<Action> call(Action action) {
    std::packaged_task<std::invoke_result_t<Action>()> task(std::move(action));
    auto result = task.get_future();
    boost::asio::post(io_, [&task] { task(); });
    return result.get();
  }

  store::StoreServer& server() { return *server_; }

 private:
  std::shared_ptr<Logger> logger_;
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> keeps_running_{io_.get_executor()};
  std::unique_ptr<store::StoreServer> server_;
  Port port_;
  std::thread thread_;
};

}  // namespace ddprun::testing
