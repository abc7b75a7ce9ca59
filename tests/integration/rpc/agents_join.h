#pragma once

#include <functional>

/// What a rank does before its agent waits for the others in the store, which is the last that shutdown() waits for.
/// What it throws, that wait throws.
void before_the_agents_join(std::function<void()> body);
