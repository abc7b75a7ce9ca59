# Toolchain of Debian 11, with what scripts/setup.sh brings there: clang 13, the C++ library of gcc 10, and the headers of Debian 12
# whose own are too old.
#
#   .venv/bin/cmake --preset quick --toolchain scripts/cmake/debian11.cmake
set(CMAKE_C_COMPILER clang-13 CACHE STRING "" FORCE)
set(CMAKE_CXX_COMPILER clang++-13 CACHE STRING "" FORCE)
include(${CMAKE_CURRENT_LIST_DIR}/UnpackedHeaders.cmake)
set(DDPRUN_HEADERS ${CMAKE_BINARY_DIR}/headers)
ddprun_link_headers(${DDPRUN_HEADERS} boost CLI fmt nlohmann spdlog)
list(PREPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR}/headers)
