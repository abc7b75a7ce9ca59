#pragma once

// Catch2 2 (Debian 12) and 3 have different header names; everything the tests use is in both.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
