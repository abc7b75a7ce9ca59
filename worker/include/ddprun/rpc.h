#pragma once

#include <ddprun/exception.h>
#include <ddprun/init.h>
#include <ddprun/rpc_values.h>

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <ATen/core/rref_interface.h>
#include <c10/util/Exception.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace torch::jit {
struct CompilationUnit;
}

/// Remote calls and remote references, over libtorch's own agent (TensorPipe): what torch.distributed.rpc is in Python.
/// The wire is the same, so ranks in Python and in C++ may be in one world.
///
///     at::Tensor twice(at::Tensor input);
///     const ddprun::rpc::Function remote_twice("demo::twice", twice);
///
/// Every rank registers its functions before it joins; then names call names:
///
///     ddprun::rpc::init_rpc(context.rank() == 0 ? "server" : "trainer", context);
///     if (context.rank() == 1) {
///       at::Tensor sum = ddprun::rpc::rpc_sync<at::Tensor>("server", "aten::add", input, input);
///     }
///     ddprun::rpc::shutdown();
///
/// Source  torch/distributed/rpc/{__init__,api,backend_registry,internal}.py of torch 2.11
namespace ddprun::rpc {

struct Options {
  /// How long a call may take that names no time of its own, and how long the ranks wait for each other at the start.
  /// Zero: for ever.
  std::chrono::milliseconds timeout{std::chrono::seconds(60)};
  /// Threads that run the functions others call here, and what follows an answer (`Future::then`).
  int threads = 16;
  /// TensorPipe's transports, by name ("shm", "uv"); none: the fastest that both ends have.
  std::vector<std::string> transports{};
  /// A call or an answer with more bytes is refused where it is made.
  std::size_t largest_message = std::size_t{4} << 30;
};

struct Worker {
  std::string name;
  int id;  ///< its rank
};

/// Joins the world of remote calls under `name`: letters, digits, `_`, `:` and `-`, fewer than 128, unique in the job.
/// Once in a process.
///
/// Order    collective: on every rank of the job, in Python or in C++.
/// Errors   Exception kConfig: the name cannot be one or is another rank's, an option has no meaning, an operator has
///          the name of a function that was registered before it, or rpc has been used before in this process;
///          kUnavailable or kTimeout: the ranks do not find each other within `Options::timeout`; kPeerLost, naming
///          the worker: one is gone that the others wait for.
void init_rpc(const std::string& name, const Context& context, const Options& options = {});
/// The same without `init()`, in which every rank would have to be a program in C++: for a world with ranks in Python.
/// A job under torchrun that restarts its ranks finds the dead ones' keys, as Python's own does: take ddprun there.
/// Errors   as above; and kConfig: a variable of the launcher's is missing or malformed.
void init_rpc(const std::string& name, const Options& options = {});

/// Leaves. Graceful: waits for this worker's calls, as long as they may take, until every rank has come here, and for
/// references that others hold, twice `Options::timeout` at most (100 s where that is zero or longer): those that
/// stay are told on stderr. Then closes; collective.
/// Otherwise closes at once, but for functions that run here, which it waits for; none begins any more. Calls that
/// are open fail, here with a sentence that says so, there as calls to a worker that is gone. Without init_rpc, or
/// after shutdown, it does nothing. A process that ends without it closes as well, and waits two seconds for such
/// functions.
/// Errors   Exception kConfig: on a thread of the agent, in a function that was called or in `then`; kPeerLost,
///          naming the worker: one is gone that the others wait for; kTimeout: one that has come here is not done
///          within 100 s; kUnavailable: another thread has shut down meanwhile, or the store is gone. But for the
///          first, rpc is closed then.
void shutdown(bool graceful = true);

[[nodiscard]] Worker self();
[[nodiscard]] std::vector<Worker> workers();  ///< all of the world, by id

/// Whom to call, and how long it may take: `"server"`, or `{"server", std::chrono::seconds(2)}`; zero: for ever.
struct To {
  To(std::string worker) : name(std::move(worker)) {}  // NOLINT: meant to convert
  To(const char* worker) : name(worker) {}             // NOLINT: meant to convert
  To(std::string worker, std::chrono::milliseconds at_most) : name(std::move(worker)), timeout(at_most) {}

  std::string name;
  std::optional<std::chrono::milliseconds> timeout{};
};

/// An exception of a class that is not known here, thrown by a function of another worker. Those of <stdexcept>, the
/// standard library's `bad_…`, std::system_error and std::filesystem::filesystem_error with their code, the common ones
/// of libtorch, and Exception arrive as what they were. Each says which worker threw it.
class RemoteError : public std::runtime_error {
 public:
  RemoteError(std::string worker, std::string type, const std::string& message)
      : std::runtime_error(message), worker_(std::move(worker)), type_(std::move(type)) {}

  [[nodiscard]] const std::string& worker() const { return worker_; }
  [[nodiscard]] const std::string& type() const { return type_; }  ///< its class's name there

 private:
  std::string worker_;
  std::string type_;
};

/// What the templates below are made of; with IValues in place of types.
namespace untyped {

using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;
using RRefPtr = c10::intrusive_ptr<c10::RRefInterface>;
using Body = std::function<c10::IValue(std::vector<c10::IValue> arguments)>;

/// Asked for when the function is called: a class may be registered after a function that takes or gives it.
using ArgumentTypes = const std::vector<c10::TypePtr>& (*)();
using ResultType = c10::TypePtr (*)();

void register_function(const std::string& name, ArgumentTypes arguments, ResultType result, Body body);
FuturePtr call(const To& to, const std::string& name, std::vector<c10::IValue> arguments);
RRefPtr remote(const To& to, const std::string& name, std::vector<c10::IValue> arguments,
               const c10::TypePtr& type);
RRefPtr own(c10::IValue value, const c10::TypePtr& type);
FuturePtr fetch(const RRefPtr& rref, std::optional<std::chrono::milliseconds> timeout);
c10::IValue local_value(const RRefPtr& rref);
std::string owner_name(const RRefPtr& rref);
void backward(const RRefPtr& rref, std::int64_t context_id, bool retain_graph);

/// Anything for what libtorch has no name for.
template <class T>
c10::TypePtr type_named() {
  try {
    if constexpr (requires { Wire<T>::type(); }) return Wire<T>::type();
  } catch (const c10::Error&) {
  }
  return c10::AnyType::get();
}
/// They last as long as the process.
template <class... A>
const std::vector<c10::TypePtr>& types_of_arguments() {
  static const auto* const all = new std::vector<c10::TypePtr>{type_named<A>()...};
  return *all;
}

template <class... A>
std::vector<c10::IValue> packed(A... values) {
  std::vector<c10::IValue> all;
  all.reserve(sizeof...(A));
  (all.push_back(Wire<A>::pack(std::move(values))), ...);
  return all;
}

}  // namespace untyped

/// A value that is on its way. Copies share it.
///
/// Errors  wait() and value() throw what the other side threw; Exception kPeerLost: the worker is gone; kTimeout;
///         kNotFound: it has no such function; kUnavailable: this process has shut rpc down.
template <class T>
class Future {
 public:
  explicit Future(untyped::FuturePtr future) : future_(std::move(future)) {}

  /// One that has its value.
  template <class U = T>
  static Future of(U value) {
    Promise promise;
    promise.set(std::move(value));
    return promise.future();
  }

  /// The other end of a Future, for functions that answer later.
  class Promise {
   public:
    Promise() : future_(c10::make_intrusive<c10::ivalue::Future>(c10::AnyType::get())) {}
    [[nodiscard]] Future future() const { return Future(future_); }
    template <class U = T>
    requires(!std::is_void_v<U>) void set(U value) const {
      future_->markCompleted(Wire<U>::pack(std::move(value)));
    }
    void set() const requires(std::is_void_v<T>) { future_->markCompleted(c10::IValue()); }
    void fail(std::exception_ptr error) const { future_->setError(std::move(error)); }

   private:
    untyped::FuturePtr future_;
  };

  T wait() const {
    future_->waitAndThrow();
    return Wire<T>::unpack(future_->constValue());
  }
  [[nodiscard]] bool done() const { return future_->completed(); }

  /// Calls `next` with the value when it is there, on the thread that brings it, one of the agent's; on this one
  /// where it is there already. What it returns, or throws, is the new future's. A failure goes through to that, past
  /// `next`.
  template <class Next>
  auto then(Next next) const {
    using Result = std::remove_cvref_t<decltype(call(next, std::declval<c10::ivalue::Future&>()))>;
    // In a std::function, which copies: `next` need not be one that can be copied.
    const auto shared = std::make_shared<Next>(std::move(next));
    return Future<Result>(future_->then(
        [shared](c10::ivalue::Future& done) -> c10::IValue {
          try {
            if constexpr (std::is_void_v<Result>) {
              call(*shared, done);
              return {};
            } else {
              return Wire<Result>::pack(call(*shared, done));
            }
          } catch (const std::exception&) {
            throw;
          } catch (...) {  // libtorch's future would never be done
            throw std::runtime_error("rpc: what then() called threw an object that is no std::exception");
          }
        },
        c10::AnyType::get()));
  }

  [[nodiscard]] const untyped::FuturePtr& raw() const { return future_; }

 private:
  template <class Next>
  static decltype(auto) call(Next& next, c10::ivalue::Future& done) {
    const c10::IValue value = done.value();  // throws where it failed
    if constexpr (std::is_void_v<T>) {
      return next();
    } else {
      return next(Wire<T>::unpack(value));
    }
  }

  untyped::FuturePtr future_;
};

template <class Signature>
class Function;

/// A C++ function that others may call by `name` ("namespace::name"), and the stub by which it is called elsewhere.
/// Every rank that calls or is called makes it, with the same signature, before init_rpc. Ranks in Python call it as a
/// TorchScript function: docs/rpc.md.
///
/// A function that returns Future<T> answers when that is done, and keeps no thread until then.
///
/// Threads  it is called on a thread of the agent, several at a time. SIGPIPE is blocked there, and in what it starts
///          (std::system, popen) unless that unblocks it.
/// Errors   Exception kConfig: the name has another form, or is another Function's, a TorchScript function's or an
///          operator's.
template <class R, class... A>
class Function<R(A...)> {
 public:
  using Result = AnswerOf<R>;

  template <class F>
  Function(std::string name, F body) : name_(std::move(name)) {
    untyped::register_function(name_, untyped::types_of_arguments<std::remove_cvref_t<A>...>,
                               untyped::type_named<std::remove_cvref_t<R>>,
                               [body = std::move(body)](std::vector<c10::IValue> arguments) mutable {
                                 return call(body, std::move(arguments), std::index_sequence_for<A...>());
                               });
  }

  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  template <class F, std::size_t... I>
  static c10::IValue call(F& body, [[maybe_unused]] std::vector<c10::IValue> arguments,
                          std::index_sequence<I...>) {
    if constexpr (std::is_void_v<R>) {
      body(Wire<std::remove_cvref_t<A>>::unpack(std::move(arguments[I]))...);
      return {};
    } else {
      return Wire<std::remove_cvref_t<R>>::pack(
          body(Wire<std::remove_cvref_t<A>>::unpack(std::move(arguments[I]))...));
    }
  }

  std::string name_;
};

template <class R, class... A>
Function(const char*, R (*)(A...)) -> Function<R(A...)>;

/// Lets others call the TorchScript functions of `unit`: "module::name" is what a Python module has as name. One that
/// was compiled without a module is called by its name in any namespace that has no function or operator of that
/// name.
/// Errors  Exception kConfig: one of them has the name of a Function, an operator, or a function of another unit.
void serve_script(std::shared_ptr<torch::jit::CompilationUnit> unit);

/// A reference to a value that one worker, the owner, holds. Copies, and what is sent to other workers, are references
/// to the same value, which lives until the last one anywhere is gone.
template <class T>
class RRef {
 public:
  explicit RRef(untyped::RRefPtr rref) : rref_(std::move(rref)) {}
  /// One whose value is here.
  template <class U = T>
  static RRef of(U value) {
    return RRef(untyped::own(Wire<T>::pack(std::move(value)), Wire<T>::type()));
  }

  [[nodiscard]] bool is_owner() const { return rref_->isOwner(); }
  [[nodiscard]] std::string owner() const { return untyped::owner_name(rref_); }
  [[nodiscard]] bool confirmed_by_owner() const { return rref_->confirmedByOwner(); }

  /// A copy of the value, once it is there; on its owner the value itself, for which it waits as long as it takes. Of
  /// what made it fail, the exception.
  [[nodiscard]] T to_here(std::optional<std::chrono::milliseconds> timeout = {}) const {
    return to_here_async(timeout).wait();
  }
  [[nodiscard]] Future<T> to_here_async(std::optional<std::chrono::milliseconds> timeout = {}) const {
    return Future<T>(untyped::fetch(rref_, timeout));
  }
  /// The value itself, on its owner.
  /// Errors  Exception kConfig: another worker's.
  [[nodiscard]] T local_value() const { return Wire<T>::unpack(untyped::local_value(rref_)); }

  /// Calls, on the owner, a function whose first argument is this reference.
  template <class R, class... A>
  Future<AnswerOf<R>> rpc_async(const Function<R(RRef, A...)>& function,
                                std::type_identity_t<std::remove_cvref_t<A>>... arguments) const {
    return Future<AnswerOf<R>>(untyped::call(owner(), function.name(), with_this(std::move(arguments)...)));
  }
  template <class R, class... A>
  AnswerOf<R> rpc_sync(const Function<R(RRef, A...)>& function,
                       std::type_identity_t<std::remove_cvref_t<A>>... arguments) const {
    return rpc_async(function, std::move(arguments)...).wait();
  }
  template <class R, class... A>
  RRef<AnswerOf<R>> remote(const Function<R(RRef, A...)>& function,
                           std::type_identity_t<std::remove_cvref_t<A>>... arguments) const {
    return RRef<AnswerOf<R>>(untyped::remote(owner(), function.name(), with_this(std::move(arguments)...),
                                             Wire<AnswerOf<R>>::type()));
  }

  /// A backward from the value, a scalar, in the dist_autograd::Context of this id.
  void backward(std::int64_t context_id, bool retain_graph = false) const {
    untyped::backward(rref_, context_id, retain_graph);
  }

  [[nodiscard]] const untyped::RRefPtr& raw() const { return rref_; }

 private:
  template <class... A>
  std::vector<c10::IValue> with_this(A... arguments) const {
    return untyped::packed(*this, std::move(arguments)...);
  }

  untyped::RRefPtr rref_;
};

/// Calls a registered C++ function on `to`. Tensors must stay as they are until the future is done: they are sent from
/// their own memory.
template <class R, class... A>
Future<AnswerOf<R>> rpc_async(const To& to, const Function<R(A...)>& function,
                              std::type_identity_t<std::remove_cvref_t<A>>... arguments) {
  return Future<AnswerOf<R>>(untyped::call(to, function.name(), untyped::packed(std::move(arguments)...)));
}
template <class R, class... A>
AnswerOf<R> rpc_sync(const To& to, const Function<R(A...)>& function,
                     std::type_identity_t<std::remove_cvref_t<A>>... arguments) {
  return rpc_async(to, function, std::move(arguments)...).wait();
}
template <class R, class... A>
RRef<AnswerOf<R>> remote(const To& to, const Function<R(A...)>& function,
                         std::type_identity_t<std::remove_cvref_t<A>>... arguments) {
  return RRef<AnswerOf<R>>(untyped::remote(to, function.name(), untyped::packed(std::move(arguments)...),
                                           Wire<AnswerOf<R>>::type()));
}

/// Calls by name: an operator of ATen ("aten::add": the first overload that takes these arguments); any other
/// "namespace::name" is what the worker has of that name: a Function, a TorchScript function, or an operator registered
/// with TORCH_LIBRARY.
/// Errors   Exception kNotFound: there is none, or no overload takes these arguments; kConfig: a Function that takes
///          others.
template <class R = c10::IValue, class... A>
Future<R> rpc_async(const To& to, const std::string& name, A... arguments) {
  return Future<R>(untyped::call(to, name, untyped::packed(std::move(arguments)...)));
}
template <class R = c10::IValue, class... A>
R rpc_sync(const To& to, const std::string& name, A... arguments) {
  return rpc_async<R>(to, name, std::move(arguments)...).wait();
}
template <class R = c10::IValue, class... A>
RRef<R> remote(const To& to, const std::string& name, A... arguments) {
  return RRef<R>(untyped::remote(to, name, untyped::packed(std::move(arguments)...), Wire<R>::type()));
}

}  // namespace ddprun::rpc
