# Toolchain of the wheel: zig's clang, which compiles for an older C library than this machine's and brings the C++ one as
# a static library. Of this machine it takes headers without code (Boost, CLI11, fmt, spdlog, json, elfutils) and libcrypto.a.
#
#   cmake --preset core -B build/wheel -DCMAKE_TOOLCHAIN_FILE=scripts/wheel/zig.cmake -DDDPRUN_ZIG=/path/to/zig
set(DDPRUN_GLIBC 2.28 CACHE STRING "The oldest C library that the program runs with")
set(DDPRUN_ZIG "" CACHE FILEPATH "The program zig, as pip install ziglang brings it")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES DDPRUN_GLIBC DDPRUN_ZIG)

set(_target -target x86_64-linux-gnu.${DDPRUN_GLIBC} -mcpu=x86_64)
list(JOIN _target " " _target)
set(CMAKE_C_COMPILER ${DDPRUN_ZIG} cc)
set(CMAKE_CXX_COMPILER ${DDPRUN_ZIG} c++)
# Where no compiler is, there are no binutils either.
foreach(language C CXX)
  set(CMAKE_${language}_ARCHIVE_CREATE "${DDPRUN_ZIG} ar qc <TARGET> <LINK_FLAGS> <OBJECTS>")
  set(CMAKE_${language}_ARCHIVE_FINISH "${DDPRUN_ZIG} ranlib <TARGET>")
endforeach()
# Nothing is linked while it configures: the first link compiles the C++ library, for minutes.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_C_FLAGS_INIT ${_target})
# Messages name a source by its place in the tree, wherever that lies.
set(CMAKE_CXX_FLAGS_INIT "${_target} -ffunction-sections -fdata-sections -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-pie -s -Wl,--gc-sections")

# Never /usr/include itself: it declares functions that the older C library lacks.
include(${CMAKE_CURRENT_LIST_DIR}/../cmake/UnpackedHeaders.cmake)
set(DDPRUN_HEADERS ${CMAKE_BINARY_DIR}/headers)
ddprun_link_headers(${DDPRUN_HEADERS} boost CLI elfutils fmt nlohmann spdlog libelf.h gelf.h dwarf.h)
if(NOT CMAKE_BINARY_DIR MATCHES CMakeFiles)
  file(MAKE_DIRECTORY ${DDPRUN_HEADERS}/openssl)
  file(GLOB _openssl /usr/include/openssl/*.h /usr/include/x86_64-linux-gnu/openssl/*.h)
  foreach(header ${_openssl})
    get_filename_component(_name ${header} NAME)
    file(CREATE_LINK ${header} ${DDPRUN_HEADERS}/openssl/${_name} SYMBOLIC)
  endforeach()
endif()
set(OPENSSL_INCLUDE_DIR ${DDPRUN_HEADERS})
# CMake does not know Debian's folder of libraries by this compiler; where pkg-config is, FindOpenSSL hears of it there.
find_library(OPENSSL_CRYPTO_LIBRARY libcrypto.a PATHS /usr/lib/x86_64-linux-gnu /usr/lib64 /usr/lib NO_DEFAULT_PATH)
set(DDPRUN_LIBDW_INCLUDE ${DDPRUN_HEADERS})
set(CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR}/../cmake/headers)
set(DDPRUN_MOLD "")
