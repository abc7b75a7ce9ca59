#pragma once

// libtorch's logging has a CHECK of its own: it is included first here, and gives the name back.
#if __has_include(<c10/util/Logging.h>)
#include <c10/util/Logging.h>
#undef CHECK
#endif

// Catch2 2 (Debian 12) and 3 have different header names; everything the tests use is in both.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
