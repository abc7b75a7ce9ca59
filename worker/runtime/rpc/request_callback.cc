#include "worker/runtime/rpc/request_callback.h"

#include "worker/runtime/rpc/backward.h"
#include "worker/runtime/rpc/functions.h"
#include "worker/runtime/rpc/session.h"
#include "worker/runtime/rpc/thrown.h"
#include "worker/runtime/rpc/travel.h"
#include <ddprun/exception.h>

#include <fmt/format.h>
#include <torch/csrc/distributed/autograd/context/container.h>
#include <torch/csrc/distributed/autograd/rpc_messages/rref_backward_req.h>
#include <torch/csrc/distributed/autograd/rpc_messages/rref_backward_resp.h>
#include <torch/csrc/distributed/rpc/python_call.h>
#include <torch/csrc/distributed/rpc/python_remote_call.h>
#include <torch/csrc/distributed/rpc/python_resp.h>
#include <torch/csrc/distributed/rpc/rref_context.h>
#include <torch/csrc/distributed/rpc/rref_proto.h>
#include <torch/csrc/distributed/rpc/script_resp.h>

#include <stdexcept>
#include <tuple>
#include <utility>

namespace ddprun::runtime {
namespace {

namespace trpc = torch::distributed::rpc;
namespace tautograd = torch::distributed::autograd;

constexpr const char* kNoPython =
    "this worker is a C++ program and runs no Python functions; call an operator of ATen or a TorchScript "
    "function";

c10::TypePtr message_type() { return c10::getCustomClassType<c10::intrusive_ptr<trpc::Message>>(); }

thread_local int on_agent_thread = 0;

Callable callable_of(trpc::ScriptCall& call) {
  if (call.hasOp()) return {declared_result(call.op()->schema()), call.op()};
  return find_callable(call.qualifiedName(), call.stackRef());
}

/// Also of a function that fails: references to its result name it.
c10::TypePtr declared_type(const Callable& callable) {
  return callable.result ? callable.result : c10::AnyType::get();
}

/// Null where it is not made yet. libtorch enters it then as one that others wait for, until it is made.
RRefPtr owned_here(const trpc::RRefId& id) {
  const auto owner = trpc::RRefContext::getInstance().getOwnerRRef(id);
  return owner->completed() && !owner->hasError() ? owner->constValue().toRRef() : nullptr;
}

/// Null where the caller, this worker, has given it up, and nobody will make it.
RRefPtr own_of_caller(const trpc::RRefId& id) {
  try {
    return trpc::RRefContext::getInstance().getOwnerRRef(id, true)->constValue().toRRef();
  } catch (const c10::Error&) {
    return nullptr;
  }
}

/// What it leaves on the stack.
c10::IValue result_of(const Callable& callable, torch::jit::Stack& stack) {
  run_callable(callable, stack);
  if (stack.empty()) return {};
  return stack.size() == 1 ? std::move(stack.front()) : c10::ivalue::Tuple::create(std::move(stack));
}

/// `to` becomes what `from` will be.
void pass_on(const c10::intrusive_ptr<c10::ivalue::Future>& from,
             c10::intrusive_ptr<c10::ivalue::Future> to) {
  from->addCallback([to = std::move(to)](c10::ivalue::Future& done) {
    if (done.hasError()) {
      to->setError(done.exception_ptr());
    } else {
      to->markCompleted(done.constValue());
    }
  });
}

void refuse_large(std::size_t answer, std::size_t largest) {
  if (answer <= largest) return;
  throw Exception(ErrorCode::kConfig, fmt::format("rpc: the answer has {} bytes, more than the {} of "
                                                  "Options::largest_message; answer in parts",
                                                  answer, largest));
}

}  // namespace

bool is_on_agent_thread() { return on_agent_thread > 0; }
OnAgentThread::OnAgentThread() { ++on_agent_thread; }
OnAgentThread::~OnAgentThread() { --on_agent_thread; }

RpcRequests::Future RpcRequests::failed() const {
  const Thrown thrown = describe_thrown(session_.name, std::current_exception());
  return asFuture(std::make_exception_ptr(std::runtime_error(write_thrown(thrown))));
}

RpcRequests::Future RpcRequests::run(const Callable& callable, torch::jit::Stack& stack) const {
  const OnAgentThread here;
  try {
    if (session_.is_closing)
      throw Exception(ErrorCode::kUnavailable,
                      "rpc: this worker has shut rpc down and begins no function any more");
    c10::IValue result = result_of(callable, stack);
    if (!result.isFuture()) return asFuture(std::move(result), c10::AnyType::get());
    return result.toFuture()->then(
        [self = session_.name](c10::ivalue::Future& later) -> c10::IValue {
          try {
            return later.value();
          } catch (...) {
            throw std::runtime_error(write_thrown(describe_thrown(self, std::current_exception())));
          }
        },
        c10::AnyType::get());
  } catch (...) {
    return failed();
  }
}

RpcRequests::Future RpcRequests::processScriptCall(Command& rpc, const std::vector<c10::Stream>&) const {
  auto& call = static_cast<trpc::ScriptCall&>(rpc);
  return run(callable_of(call), call.stackRef())
      ->then(
          [self = session_.name,
           largest = session_.options.largest_message](c10::ivalue::Future& done) -> c10::IValue {
            const c10::IValue value = done.value();
            try {
              const bool has_references = !references_in({value}).empty();
              if (has_references) refuse_large(size_without_references({value}), largest);
              auto message = trpc::ScriptResp(c10::IValue(value)).toMessage();
              if (!has_references) refuse_large(size_of(*message), largest);
              return message;
            } catch (...) {
              throw std::runtime_error(write_thrown(describe_thrown(self, std::current_exception())));
            }
          },
          message_type());
}

RpcRequests::Future RpcRequests::processScriptRemoteCall(Command& rpc,
                                                         const std::vector<c10::Stream>&) const {
  const OnAgentThread here;
  auto& call = static_cast<trpc::ScriptRemoteCall&>(rpc);
  const trpc::ForkId& fork = call.retForkId();
  const Callable callable = callable_of(call);
  const bool is_own = call.retRRefId() == fork;
  const RRefPtr owner = is_own ? own_of_caller(fork) : owned_here(call.retRRefId());
  // A call to oneself that took too long: nobody waits for it any more.
  if (!owner && is_own) {
    std::ignore = run(callable, call.stackRef());
    return asFuture(std::make_exception_ptr(std::runtime_error("rpc: its caller has given it up")));
  }
  // One that came here before its value did has the type that its maker named.
  const c10::TypePtr type = owner ? owner->type() : type_in_reference(declared_type(callable));
  const auto value = c10::make_intrusive<c10::ivalue::Future>(type);
  // Before the function runs: a caller for whom it takes too long gives back only what is known here.
  Future answer = assignOwnerRRef(call.retRRefId(), fork, value);
  if (given_back_.take(fork)) trpc::RRefContext::getInstance().delForkOfOwner(call.retRRefId(), fork);
  pass_on(run(callable, call.stackRef()), value);
  return answer;
}

RpcRequests::Future RpcRequests::processRpcWithErrors(Command& rpc, const MessageType& type,
                                                      const std::vector<c10::Stream>& streams) const {
  if (type == MessageType::RREF_USER_DELETE)
    given_back_.add(static_cast<trpc::RRefUserDelete&>(rpc).forkId());
  return RequestCallbackNoPython::processRpcWithErrors(rpc, type, streams);
}

std::unique_ptr<RpcRequests::Command> RpcRequests::deserializePythonRpcCommand(std::unique_ptr<Command> rpc,
                                                                               const MessageType&) const {
  return rpc;
}

/// Refused through the reference, which its maker gives back then as any other.
RpcRequests::Future RpcRequests::processPythonRemoteCall(Command& rpc,
                                                         const std::vector<c10::Stream>&) const {
  const auto& call = static_cast<trpc::PythonRemoteCall&>(rpc);
  const auto refused = c10::make_intrusive<c10::ivalue::Future>(c10::PyObjectType::get());
  refused->setError(std::make_exception_ptr(std::runtime_error(kNoPython)));
  return assignOwnerRRef(trpc::RRefId::fromIValue(call.retRRefId()),
                         trpc::ForkId::fromIValue(call.retForkId()), refused);
}

/// Of a reference that was refused: no value of this worker is Python's.
RpcRequests::Future RpcRequests::processPythonRRefFetchCall(Command&) const {
  return asFuture(std::make_exception_ptr(std::runtime_error(kNoPython)));
}

RpcRequests::Future RpcRequests::processPythonCall(Command& rpc, const std::vector<c10::Stream>&) const {
  const auto& call = static_cast<trpc::PythonCall&>(rpc);
  const auto gather = read_gather_call(call.serializedPyObj().payload_);
  if (!gather) throw std::runtime_error(kNoPython);
  session_.gathering.hear(*gather);
  return asFuture(trpc::PythonResp(trpc::SerializedPyObj(pickled_none(), {})).toMessage());
}

RpcRequests::Future RpcRequests::processRRefBackward(Command& rpc) const {
  auto& request = static_cast<tautograd::RRefBackwardReq&>(rpc);
  const std::int64_t context = request.getAutogradContextId();
  return retrieveOwnerRRef(request.getRRefId())
      ->then(
          [self = session_.name, context,
           keep = request.retainGraph()](c10::ivalue::Future& value) -> c10::IValue {
            const OnAgentThread here;
            const c10::IValue root = value.value();  // what made it fail is written already
            try {
              run_backward(context, {root.toTensor()}, keep);
              return tautograd::RRefBackwardResp().toMessage();
            } catch (...) {
              throw std::runtime_error(write_thrown(describe_thrown(self, std::current_exception())));
            }
          },
          message_type());
}

}  // namespace ddprun::runtime
