#pragma once

#include <string>

namespace ddprun::testing {

/// What goes wrong with a process that does `what`: an exception, a signal, an exit. Ends it, or throws.
///
///   throws, bad_alloc, throws_int, system_error     an exception of that kind
///   kill, segv, fpe, bus, abort, terminate          its signal; std::terminate
///   thread_throws, joinable                         what C++ ends with std::terminate for
///   exit_0, exit_3, _exit_0, _exit_7                by exit() and _exit()
///   hold                                            says "holding PID" on stdout, and goes on when someone has opened
///                                                   the FIFO FAULT_FIFO for writing; once
///   stuck                                           says "stuck PID" on stdout and stops, for someone to end
void act(const std::string& what);

}  // namespace ddprun::testing
