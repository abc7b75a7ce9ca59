# ddprun_warnings(target): the warnings our own code is held to. Interface users never see them.
function(ddprun_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wswitch-enum
                                           -Wno-missing-field-initializers)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # False positives of gcc 12 on std::string assignment (gcc bug 105651).
    target_compile_options(${target} PRIVATE -Wno-restrict)
  endif()
  if(DDPRUN_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # Instrumented code hides from gcc what is initialised: it warns about std::regex and std::function themselves.
    target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
  endif()
  if(DDPRUN_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()
