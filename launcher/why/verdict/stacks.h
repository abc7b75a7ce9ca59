#pragma once

#include "launcher/why/facts/facts.h"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::why {

// What stacks tell, of Python and native ones. Pure.

/// Whether a file is no part of the program itself: of the interpreter, or installed.
bool is_library(const std::string& file);
bool is_torch(const std::string& file);

/// The main thread's stack; null: there is none.
const PythonThread* main_python(const RankFacts& facts);
/// Whether one of its frames is of that function, or of a method of that name.
bool has_frame(const PythonThread* thread, std::string_view function);

/// The program's own lines; before them the innermost of a library, unless that is torch's.
std::vector<Frame> shown_frames(const std::vector<Frame>& frames);
/// Of the main thread, without those of the C library and the interpreter, which tell nothing.
std::vector<Frame> native_frames(const RankFacts& facts);
/// Of the first process of its own that has some.
std::vector<Frame> child_frames(const RankFacts& facts);

/// Whether the name of a function on any thread's stack has that part.
bool has_native(const RankFacts& facts, std::string_view part);
/// The same of the main thread's.
bool has_main_native(const RankFacts& facts, std::string_view part);
/// Whether a function of just that name is on the main thread's stack.
bool is_main_in(const RankFacts& facts, std::string_view name);

/// The name of torch's operation that the main thread is in, by its Python frames; empty: in none.
std::string torch_operation(const RankFacts& facts);
/// Whether it is in Queue.get of Python's library.
bool waits_for_an_item(const PythonThread* thread);
/// Whether it waits for work, as the threads of pools and queues do.
bool waits_for_work(const PythonThread& thread);
/// A thread that holds Python's lock while the main one waits; null: none does.
const PythonThread* holder_of_gil(const RankFacts& facts);

}  // namespace ddprun::launcher::why
