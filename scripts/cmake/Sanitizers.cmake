# DDPRUN_SANITIZE=address,undefined | thread: for everything we compile, so that no object escapes it.
if(DDPRUN_SANITIZE)
  add_compile_options(-fsanitize=${DDPRUN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${DDPRUN_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND DDPRUN_SANITIZE MATCHES address)
    # gcc's shared libubsan beside libasan has a report file of its own, to which log_path does not come.
    add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-static-libasan$<SEMICOLON>-static-libubsan>)
  endif()

  set(_reports ${PROJECT_BINARY_DIR}/sanitizer)
  file(MAKE_DIRECTORY ${_reports})
  add_library(ddprun_sanitizer_options OBJECT ${CMAKE_CURRENT_LIST_DIR}/sanitizer_options.cc)
  target_compile_definitions(ddprun_sanitizer_options PRIVATE DDPRUN_SANITIZER_REPORTS="${_reports}/report")
  target_compile_options(ddprun_sanitizer_options PRIVATE -fno-sanitize=all)  # they are read before anything else
  link_libraries($<BUILD_INTERFACE:ddprun_sanitizer_options>)

  # A report fails the run of ctest, whatever the process that wrote it was expected to do.
  set(_check ${PROJECT_SOURCE_DIR}/scripts/check_sanitizer_reports.sh)
  file(WRITE ${PROJECT_BINARY_DIR}/CTestCustom.cmake
       "set(CTEST_CUSTOM_PRE_TEST \"${_check} --clear ${_reports}\")\nset(CTEST_CUSTOM_POST_TEST \"${_check} ${_reports}\")\n")
endif()
