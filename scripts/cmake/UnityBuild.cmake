# ddprun_unity_build(target): with DDPRUN_UNITY_BUILD, a number, so many of its files are compiled at a time. Most of what a file costs are
# the templates of asio, json and libtorch, and a sanitizer doubles that. With gcc units of sixteen files take a fifth less than those of
# eight; with clang, unoptimised, those of 32 a sixth less than those of sixteen. Its names in anonymous namespaces must be unique.
function(ddprun_unity_build target)
  if(NOT DDPRUN_UNITY_BUILD)
    return()
  endif()
  set(files 16)  # where it says no more than ON
  if(DDPRUN_UNITY_BUILD MATCHES "^[0-9]+$" AND DDPRUN_UNITY_BUILD GREATER 1)
    set(files ${DDPRUN_UNITY_BUILD})
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${files})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)  # gcc takes the .cc files for headers
  endif()
endfunction()
