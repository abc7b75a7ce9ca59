#include "worker/runtime/rpc/meeting.h"

#include "worker/runtime/rpc/failure.h"
#include "worker/runtime/rpc/python_words.h"
#include "worker/runtime/rpc/signs_of_life.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/rpc/python_call.h>
#include <torch/csrc/distributed/rpc/python_resp.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::runtime {
namespace {

namespace trpc = torch::distributed::rpc;
using Clock = std::chrono::steady_clock;

constexpr auto kBetweenQuestions = std::chrono::seconds(1);

using Answer = c10::intrusive_ptr<c10::ivalue::Future>;

Answer send_python(RpcSession& session, const std::string& to, const std::string& pickle,
                   std::chrono::milliseconds timeout) {
  auto message = trpc::PythonCall(trpc::SerializedPyObj(std::string(pickle), {}), false).toMessage();
  return session.agent->send(session.agent->getWorkerInfo(to), std::move(message), agent_seconds(timeout));
}

void say_python(RpcSession& session, const std::string& to, const std::string& pickle,
                std::chrono::milliseconds timeout) {
  const Answer answer = send_python(session, to, pickle, timeout);
  answer->wait();
  const FailedCall call{"meeting all workers", to, timeout};
  if (answer->hasError()) std::rethrow_exception(exception_for(call, answer->tryRetrieveErrorMessage()));
  const auto response = trpc::PythonResp::fromMessage(*answer->constValue().toCustomClass<trpc::Message>());
  if (const auto problem = read_python_exception(response->serializedPyObj().payload_))
    std::rethrow_exception(exception_for(call, *problem));
}

/// The leader is the only one that asks all. Who follows would see it leave, and take it for the one that is gone.
void tell_loss(RpcSession& session, const std::string& lost) {
  const std::string message =
      pickled_loss(sequence_name(session.names, session.meetings), lost, session.names);
  std::vector<Answer> answers;
  for (const std::string& name : session.names) {
    if (name != session.name && name != lost)
      answers.push_back(send_python(session, name, message, kBetweenQuestions));
  }
  for (const Answer& answer : answers) answer->wait();
}

void wait_for(RpcSession& session, const std::string& sequence, Clock::time_point deadline) {
  while (!session.gathering.wait_until(sequence, session.names,
                                       std::min(deadline, Clock::now() + kBetweenQuestions))) {
    if (Clock::now() >= deadline)
      throw Exception(ErrorCode::kTimeout,
                      fmt::format("rpc: worker '{}' waits for {}, who did not come in time", session.name,
                                  fmt::join(session.gathering.missing(sequence, session.names), ", ")));
    ask_for_life(session);
  }
}

/// The leader leaves after all have heard of a loss, so that whoever cannot reach it knows the true one.
void throw_if_lost(RpcSession& session) {
  const std::string lost = session.gathering.lost();
  if (lost.empty()) return;
  throw Exception(
      ErrorCode::kPeerLost,
      fmt::format("rpc: meeting all workers on worker '{}': the worker is gone (as '{}' says); its "
                  "own last words, or the launcher's report, say why",
                  lost, *session.names.begin()));
}

void lead(RpcSession& session, const std::string& sequence, Clock::time_point deadline,
          std::chrono::milliseconds timeout) {
  session.gathering.hear({.kind = GatherCall::Kind::kArrived, .sequence = sequence, .worker = session.name});
  wait_for(session, sequence, deadline);
  std::exception_ptr failure;
  std::string lost;
  for (const std::string& name : session.names) {
    try {
      if (name != session.name)
        say_python(session, name, pickled_broadcast(sequence, session.names), timeout);
    } catch (...) {
      failure = std::current_exception();
      lost = name;
    }
  }
  if (!failure) return;
  tell_loss(session, lost);
  std::rethrow_exception(failure);
}

void follow(RpcSession& session, const std::string& sequence, Clock::time_point deadline,
            std::chrono::milliseconds timeout) {
  const std::string leader = *session.names.begin();
  try {
    say_python(session, leader, pickled_gather(sequence, session.name, session.names), timeout);
    wait_for(session, sequence, deadline);
  } catch (...) {
    throw_if_lost(session);
    throw;
  }
  throw_if_lost(session);
}

std::string given_up_key(const std::string& name) { return "gave_up/" + name; }

bool has_given_up(RpcSession& session, const std::string& name) {
  try {
    return session.store->check({given_up_key(name)});
  } catch (const std::exception&) {
    return false;  // the store is gone with its launcher
  }
}

}  // namespace

void say_given_up(RpcSession& session) {
  try {
    session.store->set(given_up_key(session.name), std::vector<std::uint8_t>{1});
  } catch (const std::exception&) {  // the store is gone, and nobody can read it there
  }
}

void ask_for_life(RpcSession& session) {
  throw_if_lost(session);
  const std::string leader = *session.names.begin();
  const bool leads = session.name == leader;
  auto lost = lost_connections(session, leads ? session.names : std::set{leader});
  std::erase_if(lost, [&](const auto& one) { return has_given_up(session, one.first); });
  if (lost.empty()) return;
  const auto& [name, error] = *lost.begin();
  if (leads) tell_loss(session, name);
  throw_if_lost(session);
  std::rethrow_exception(exception_for({"meeting all workers", name, session.options.timeout}, error));
}

void gather_all(RpcSession& session, std::chrono::milliseconds timeout) {
  const std::string sequence = sequence_name(session.names, session.meetings++);
  const Clock::time_point deadline = timeout.count() == 0 ? Clock::time_point::max() : Clock::now() + timeout;
  const bool leads = session.name == *session.names.begin();
  (leads ? lead : follow)(session, sequence, deadline, timeout);
  session.gathering.forget(sequence);
}

}  // namespace ddprun::runtime
