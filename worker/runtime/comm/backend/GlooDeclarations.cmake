# Makes the target ddprun_gloo_declarations: the five gloo headers that libtorch's ProcessGroupGloo.hpp includes and the
# wheel does not ship, each leading to gloo_declarations.h.
set(_expected
  "<gloo/algorithm.h>" "<gloo/common/error.h>" "<gloo/context.h>" "<gloo/rendezvous/store.h>" "<gloo/transport/device.h>"
  "gloo::Context" "gloo::rendezvous::Store" "gloo::transport::Device" "gloo::transport::UnboundBuffer")
set(_header ${DDPRUN_TORCH}/include/torch/csrc/distributed/c10d/ProcessGroupGloo.hpp)
file(READ ${_header} _text)
string(REGEX MATCHALL "<gloo/[a-z_/]+\\.h>|gloo::[A-Za-z_]+(::[A-Za-z_]+)*" _mentions "${_text}")
list(REMOVE_DUPLICATES _mentions)
list(SORT _mentions)
list(SORT _expected)
if(NOT _mentions STREQUAL _expected)
  message(FATAL_ERROR "libtorch's use of gloo has changed: ${_header} mentions\n  ${_mentions}\nand "
                      "worker/runtime/comm/backend/gloo_declarations.h was written for\n  ${_expected}\n"
                      "Read the header's new uses, extend the declarations and this list")
endif()

set(_folder ${PROJECT_BINARY_DIR}/gloo_declarations)
foreach(_mention ${_expected})
  if(_mention MATCHES "^<(.*)>$")
    file(CONFIGURE OUTPUT ${_folder}/${CMAKE_MATCH_1}
         CONTENT "#pragma once\n#include \"worker/runtime/comm/backend/gloo_declarations.h\"\n")
  endif()
endforeach()
add_library(ddprun_gloo_declarations INTERFACE)
target_include_directories(ddprun_gloo_declarations SYSTEM INTERFACE ${_folder})
target_include_directories(ddprun_gloo_declarations INTERFACE ${PROJECT_SOURCE_DIR})
