# ddprun_unity_build(target): with DDPRUN_UNITY_BUILD its files are compiled sixteen at a time. Most of what a file costs
# are the templates of asio, json and libtorch, and a sanitizer doubles that; units of sixteen files take a fifth less than
# those of eight. Its names in anonymous namespaces must be unique.
function(ddprun_unity_build target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${DDPRUN_UNITY_BUILD} UNITY_BUILD_BATCH_SIZE 16)
  if(DDPRUN_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)  # gcc takes the .cc files for headers
  endif()
endfunction()
