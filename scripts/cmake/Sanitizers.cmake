# DDPRUN_SANITIZE=address,undefined | thread: for everything we compile, so that no object escapes it.
if(DDPRUN_SANITIZE)
  add_compile_options(-fsanitize=${DDPRUN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  if(DDPRUN_SANITIZE MATCHES undefined)
    # It asks a pipe whether an object can be read, and takes what it cannot ask about for broken: where no descriptor is
    # left, which is something that we test.
    add_compile_options(-fno-sanitize=vptr)
  endif()
  set(_runtimes -fsanitize=${DDPRUN_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND DDPRUN_SANITIZE MATCHES address)
    # gcc's shared libubsan beside libasan has a report file of its own, to which log_path does not come. A shared library
    # takes what it needs from its program: with a shared libasan of its own, the program would not start.
    list(APPEND _runtimes -static-libasan -static-libubsan)
    add_link_options("$<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:${_runtimes}>")
  else()
    add_link_options(${_runtimes})
  endif()

  # The environment of a build of somebody else's program, which has to have the runtimes that our libraries need.
  list(JOIN _runtimes " " _of_programs)
  set(DDPRUN_SANITIZED_BUILD "CXXFLAGS=-fsanitize=${DDPRUN_SANITIZE} -fno-sanitize=vptr -fno-sanitize-recover=all" "LDFLAGS=${_of_programs}")

  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND DDPRUN_SANITIZE MATCHES thread)
    # asio's fences, which the sanitizer does not see; they stand beside locks, which it does.
    add_compile_options(-Wno-tsan)
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

# ddprun_without_sanitizers(target): for programs whose end is the test's subject, and for what is loaded into programs
# that have no sanitizer.
function(ddprun_without_sanitizers target)
  if(DDPRUN_SANITIZE)
    get_target_property(libraries ${target} LINK_LIBRARIES)
    list(FILTER libraries EXCLUDE REGEX sanitizer_options)
    set_target_properties(${target} PROPERTIES LINK_LIBRARIES "${libraries}")
    target_compile_options(${target} PRIVATE -fno-sanitize=all)
    target_link_options(${target} PRIVATE -fno-sanitize=all)
  endif()
endfunction()
