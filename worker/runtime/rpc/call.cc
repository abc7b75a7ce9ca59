#include "worker/runtime/rpc/backward.h"
#include "worker/runtime/rpc/failure.h"
#include "worker/runtime/rpc/functions.h"
#include "worker/runtime/rpc/request_callback.h"
#include "worker/runtime/rpc/session.h"
#include "worker/runtime/rpc/travel.h"
#include <ddprun/rpc.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/autograd/rpc_messages/rref_backward_req.h>
#include <torch/csrc/distributed/autograd/utils.h>
#include <torch/csrc/distributed/rpc/rref_context.h>
#include <torch/csrc/distributed/rpc/rref_proto.h>
#include <torch/csrc/distributed/rpc/script_remote_call.h>
#include <torch/csrc/distributed/rpc/utils.h>

#include <memory>
#include <optional>
#include <shared_mutex>
#include <utility>
#include <vector>

namespace ddprun::rpc {
namespace {

namespace trpc = torch::distributed::rpc;
namespace tautograd = torch::distributed::autograd;

using runtime::FailedCall;
using runtime::RpcSession;
using untyped::FuturePtr;
using untyped::RRefPtr;
using MessagePtr = c10::intrusive_ptr<trpc::Message>;

const trpc::WorkerInfo& worker_named(const RpcSession& session, const std::string& name) {
  if (!session.names.contains(name))
    throw Exception(ErrorCode::kNotFound,
                    fmt::format("rpc: there is no worker '{}' in this world; there are {}", name,
                                fmt::join(session.names, ", ")));
  return session.agent->getWorkerInfo(name);
}

std::chrono::milliseconds time_for(const RpcSession& session,
                                   std::optional<std::chrono::milliseconds> timeout) {
  if (timeout && timeout->count() < 0)
    throw Exception(ErrorCode::kConfig,
                    fmt::format("rpc: a call cannot take {} ms; zero is for ever", timeout->count()));
  return timeout.value_or(session.options.timeout);
}

void refuse_large_call(const RpcSession& session, const FailedCall& call, std::size_t size) {
  if (size <= session.options.largest_message) return;
  throw Exception(ErrorCode::kConfig, fmt::format("rpc: {} on worker '{}': the call has {} bytes, more than "
                                                  "the {} of Options::largest_message; send it in parts",
                                                  call.what, call.to, size, session.options.largest_message));
}

/// What the agent says of a call that failed, or a sentence where this worker closed rpc under it.
std::exception_ptr reason_of(const std::string& error, const RpcSession& session, const FailedCall& call) {
  if (session.is_closing)
    return std::make_exception_ptr(Exception(
        ErrorCode::kUnavailable, fmt::format("rpc: {} on worker '{}': this worker has shut rpc down while "
                                             "the call was open; wait for it before shutdown",
                                             call.what, call.to)));
  return runtime::exception_for(call, error);
}
std::exception_ptr reason_of(const c10::ivalue::Future& failed, const RpcSession& session,
                             const FailedCall& call) {
  return reason_of(failed.tryRetrieveErrorMessage(), session, call);
}

/// A failed reference's own failure: its owner would find no value, or wait for one until the time is over.
std::exception_ptr failure_of(const runtime::RRefPtr& reference, const RpcSession& session,
                              const FailedCall& call) {
  const auto made = c10::static_intrusive_pointer_cast<trpc::RRef>(reference)->getOwnerCreationFuture();
  return made && made->completed() && made->hasError() ? reason_of(*made, session, call) : nullptr;
}

/// What every call begins with.
struct Begun {
  std::shared_ptr<RpcSession> session;
  std::shared_lock<std::shared_mutex> in_use;
  const trpc::WorkerInfo& to;
  FailedCall call;
  std::exception_ptr refusal{};  ///< a failed reference's own failure
};

/// `what` needs a worker that has joined; `find` gives whom it calls.
template <class Find>
Begun begin_call(const char* what, const std::string& name, const std::vector<runtime::RRefPtr>& references,
                 std::optional<std::chrono::milliseconds> timeout, Find find) {
  auto session = runtime::rpc_session_for(what);
  auto in_use = session->use();
  const trpc::WorkerInfo& to = find(*session);
  const FailedCall call{name, to.name_, time_for(*session, timeout)};
  Begun begun{std::move(session), std::move(in_use), to, call};
  for (const auto& reference : references) {
    if (!begun.refusal) begun.refusal = failure_of(reference, *begun.session, call);
  }
  return begun;
}
Begun begin_call(const char* what, const std::string& name, const std::vector<runtime::RRefPtr>& references,
                 const To& to) {
  return begin_call(
      what, name, references,
      to.timeout, [&to](const RpcSession& session) -> const auto& { return worker_named(session, to.name); });
}
Begun begin_at_owner(const char* what, const RRefPtr& rref,
                     std::optional<std::chrono::milliseconds> timeout) {
  return begin_call(
      what, what, {rref}, timeout, [&rref](const RpcSession& session) -> const auto& {
        return session.agent->getWorkerInfo(rref->owner());
      });
}

FuturePtr failed(std::exception_ptr error) {
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::AnyType::get());
  future->setError(std::move(error));
  return future;
}

/// Sends, and completes the result with `read` of the answer.
template <class Read>
FuturePtr send(const std::shared_ptr<RpcSession>& session, const trpc::WorkerInfo& to, MessagePtr message,
               FailedCall call, bool always_in_context, Read read) {
  auto result = c10::make_intrusive<c10::ivalue::Future>(c10::AnyType::get());
  FuturePtr answer;
  try {
    answer = tautograd::sendMessageWithAutograd(*session->agent, to, std::move(message), always_in_context,
                                                runtime::agent_seconds(call.timeout));
  } catch (const std::exception& error) {
    result->setError(reason_of(error.what(), *session, call));
    return result;
  }
  answer->addCallback([result, session, call = std::move(call), read](c10::ivalue::Future& done) {
    const runtime::OnAgentThread here;
    if (done.hasError()) {
      result->setError(reason_of(done, *session, call));
      return;
    }
    try {
      result->markCompleted(read(*done.constValue().toCustomClass<trpc::Message>()));
    } catch (const std::exception& error) {
      result->setError(runtime::exception_for(call, error.what()));
    }
  });
  return result;
}

const trpc::RRefId& id_of(const RRefPtr& rref) { return static_cast<const trpc::RRef&>(*rref).rrefId(); }

FuturePtr send_backward(const RRefPtr& rref, std::int64_t context_id, bool retain_graph) {
  const Begun begun = begin_at_owner("backward", rref, {});
  if (begun.refusal) return failed(begun.refusal);
  auto message = tautograd::RRefBackwardReq(id_of(rref), context_id, retain_graph).toMessage();
  return send(begun.session, begun.to, std::move(message), begun.call, false,
              [](const trpc::Message&) { return c10::IValue(); });
}

c10::IValue read_reference(const trpc::Message& message) {
  trpc::MessageType type = message.type();
  const auto response = trpc::deserializeResponse(message, type);
  return static_cast<trpc::RRefFetchRet&>(*response).values().front();
}

/// An operator computes with its arguments alone; a function may use tensors of its worker that want a gradient.
bool may_have_parameters(const std::string& name) { return !runtime::is_aten(name); }

using Operator = std::shared_ptr<torch::jit::Operator>;

/// Null for what the other side finds by its name.
Operator operator_of(const std::string& name, std::vector<c10::IValue>& arguments) {
  return runtime::is_aten(name) ? runtime::find_operator(name, arguments) : nullptr;
}

MessagePtr make_call(const std::string& name, const Operator& found, std::vector<c10::IValue> arguments) {
  if (found) return trpc::ScriptCall(found, std::move(arguments)).toMessage();
  return trpc::ScriptCall(runtime::wire_name(name), std::move(arguments)).toMessage();
}

MessagePtr make_remote_call(const std::string& name, const Operator& found,
                            std::vector<c10::IValue> arguments, const trpc::RRefId& value,
                            const trpc::ForkId& fork) {
  if (found) return trpc::ScriptRemoteCall(found, std::move(arguments), value, fork).toMessage();
  return trpc::ScriptRemoteCall(runtime::wire_name(name), std::move(arguments), value, fork, false)
      .toMessage();
}

/// Owner and references have to name the same type: the one that the function declares, where that is known here.
c10::TypePtr type_of_reference(const std::string& name, const Operator& found,
                               const std::vector<c10::IValue>& arguments, const c10::TypePtr& type) {
  return runtime::type_in_reference(found ? runtime::declared_result(found->schema())
                                          : runtime::result_type(runtime::wire_name(name), arguments, type));
}

/// A reference whose owner never learnt of it counts as confirmed, so that nobody waits for it at the end. One that
/// took too long is given back then.
void confirm_or_drop(c10::ivalue::Future& answer, RpcSession& session, const RpcSession::Late& user) {
  if (!answer.hasError()) {
    trpc::callback::confirmPendingUser(answer, user.fork);
    return;
  }
  trpc::RRefContext::getInstance().delPendingUser(user.fork);
  if (runtime::is_timeout(answer.tryRetrieveErrorMessage())) session.add_late(user);
}

/// It counts as a reference to itself until it is made. Where that took too long, who waits for the value hears of it.
void finish_own(c10::ivalue::Future& answer, const c10::intrusive_ptr<trpc::OwnerRRef>& own) {
  const runtime::OnAgentThread here;
  if (answer.hasError()) {
    if (!own->hasValue()) own->setError(answer.exception_ptr());
    trpc::RRefContext::getInstance().delForkOfOwner(own->rrefId(), own->rrefId());
  } else {
    trpc::callback::finishCreatingOwnerRRef(answer, own->rrefId());
  }
}

}  // namespace

FuturePtr untyped::call(const To& to, const std::string& name, std::vector<c10::IValue> arguments) {
  const auto references = runtime::references_in(arguments);
  const auto [session, in_use, worker, call, refusal] = begin_call("a call", name, references, to);
  if (refusal) std::rethrow_exception(refusal);
  const Operator found = operator_of(name, arguments);
  if (!references.empty()) refuse_large_call(*session, call, runtime::size_without_references(arguments));
  auto message = make_call(name, found, std::move(arguments));
  if (references.empty()) refuse_large_call(*session, call, runtime::size_of(*message));
  return send(session, worker, std::move(message), call, may_have_parameters(name),
              [](const trpc::Message& answer) { return trpc::deserializeRespToIValue(answer); });
}

RRefPtr untyped::remote(const To& to, const std::string& name, std::vector<c10::IValue> arguments,
                        const c10::TypePtr& type) {
  const Begun begun = begin_call("remote", name, runtime::references_in(arguments), to);
  if (begun.refusal) std::rethrow_exception(begun.refusal);
  const auto& session = begun.session;
  const FailedCall& call = begun.call;
  const trpc::WorkerInfo& worker = begun.to;
  const Operator found = operator_of(name, arguments);
  refuse_large_call(*session, call, runtime::size_without_references(arguments));
  const c10::TypePtr referenced = type_of_reference(name, found, arguments, type);
  auto& references = trpc::RRefContext::getInstance();
  const auto send_call = [&](const trpc::RRefId& value, const trpc::ForkId& fork) {
    auto message = make_remote_call(name, found, std::move(arguments), value, fork);
    try {
      return tautograd::sendMessageWithAutograd(*session->agent, worker, std::move(message),
                                                may_have_parameters(name),
                                                runtime::agent_seconds(call.timeout));
    } catch (const std::exception& error) {
      std::rethrow_exception(reason_of(error.what(), *session, call));
    }
  };
  if (worker.id_ == references.getWorkerId()) {
    auto own = references.createOwnerRRef(referenced);
    references.addSelfAsFork(own);
    FuturePtr answer;
    try {
      answer = send_call(own->rrefId(), own->rrefId());
    } catch (...) {
      references.delForkOfOwner(own->rrefId(), own->rrefId());
      throw;
    }
    own->registerOwnerCreationFuture(answer);
    answer->addCallback([own](c10::ivalue::Future& done) { finish_own(done, own); });
    return own;
  }
  auto user = references.createUserRRef(worker.id_, referenced);
  const FuturePtr answer = send_call(user->rrefId(), user->forkId());
  user->registerOwnerCreationFuture(answer);
  references.addPendingUser(user->forkId(), user);
  answer->addCallback([session, late = RpcSession::Late{worker.id_, user->rrefId(), user->forkId()}](
                          c10::ivalue::Future& done) { confirm_or_drop(done, *session, late); });
  return user;
}

RRefPtr untyped::own(c10::IValue value, const c10::TypePtr& type) {
  const auto session = runtime::rpc_session_for("a reference");
  const auto in_use = session->use();
  auto own = trpc::RRefContext::getInstance().createOwnerRRef(runtime::type_in_reference(type));
  own->setValue(std::move(value));
  return own;
}

FuturePtr untyped::fetch(const RRefPtr& rref, std::optional<std::chrono::milliseconds> timeout) {
  const Begun begun = begin_at_owner("to_here", rref, timeout);
  if (begun.refusal) return failed(begun.refusal);
  if (rref->isOwner()) {
    return c10::static_intrusive_pointer_cast<trpc::OwnerRRef>(rref)->getFuture()->then(
        [session = begun.session, call = begun.call](c10::ivalue::Future& done) -> c10::IValue {
          if (done.hasError()) std::rethrow_exception(reason_of(done, *session, call));
          return done.constValue();
        },
        c10::AnyType::get());
  }
  const auto own_id = begun.session->agent->getWorkerInfo().id_;
  return send(begun.session, begun.to, trpc::ScriptRRefFetchCall(own_id, id_of(rref)).toMessage(), begun.call,
              true, read_reference);
}

c10::IValue untyped::local_value(const RRefPtr& rref) {
  if (!rref->isOwner())
    throw Exception(ErrorCode::kConfig, fmt::format("rpc: the value of this reference is worker '{}''s; take "
                                                    "a copy with to_here, or call a function there",
                                                    owner_name(rref)));
  const FuturePtr value = fetch(rref, {});
  value->waitAndThrow();
  return value->constValue();
}

std::string untyped::owner_name(const RRefPtr& rref) {
  return runtime::rpc_session_for("a reference")->agent->getWorkerInfo(rref->owner()).name_;
}

void untyped::backward(const RRefPtr& rref, std::int64_t context_id, bool retain_graph) {
  if (rref->isOwner()) {
    runtime::run_backward(context_id, {local_value(rref).toTensor()}, retain_graph);
    return;
  }
  send_backward(rref, context_id, retain_graph)->waitAndThrow();
}

Worker self() {
  const auto session = runtime::rpc_session_for("self");
  return {session->name, session->agent->getWorkerInfo().id_};
}

std::vector<Worker> workers() {
  const auto session = runtime::rpc_session_for("workers");
  std::vector<Worker> all;
  for (int id = 0; id < session->world_size; ++id)
    all.push_back({session->agent->getWorkerInfo(static_cast<trpc::worker_id_t>(id)).name_, id});
  return all;
}

}  // namespace ddprun::rpc
