#include "worker/training/step/foreign_error.h"

#include "rendezvous/base/exit_codes.h"
#include "worker/runtime/process/record/lost_peer.h"
#include <ddprun/exception.h>

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <new>
#include <string>

namespace ddprun::training {
namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

Error peer_lost(const std::string& what) {
  return {ErrorCode::kPeerLost,
          fmt::format("the ranks lost each other: {}; the first failure in the job's report is the "
                      "cause",
                      first_line(what))};
}

}  // namespace

Error describe_exception(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const Exception& error) {
    return {error.code(), error.what()};
  } catch (const c10::OutOfMemoryError& error) {
    return {ErrorCode::kOs, fmt::format("out of memory: {}; a smaller /train/batch_size needs less",
                                        first_line(error.what_without_backtrace()))};
  } catch (const c10::Error& error) {
    if (runtime::means_lost_peer(error)) return peer_lost(error.what_without_backtrace());
    return {ErrorCode::kInternal, fmt::format("libtorch: {}", first_line(error.what_without_backtrace()))};
  } catch (const std::bad_alloc&) {
    return {ErrorCode::kOs, "out of memory; a smaller /train/batch_size needs less"};
  } catch (const std::exception& error) {
    if (runtime::means_lost_peer(error)) return peer_lost(error.what());
    return {ErrorCode::kInternal, first_line(error.what())};
  } catch (...) {
    return {ErrorCode::kInternal, "an exception of unknown type"};
  }
}

int exit_code_of(ErrorCode code) {
  const bool is_input = code == ErrorCode::kCorrupt || code == ErrorCode::kNotFound;
  return to_exit_code(is_input ? ErrorCode::kConfig : code);
}

}  // namespace ddprun::training
