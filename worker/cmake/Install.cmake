# `cmake --install build/release --prefix P`: the library, its headers and the package that find_package(ddprun) reads.
include(CMakePackageConfigHelpers)
set(_package ${CMAKE_INSTALL_LIBDIR}/cmake/ddprun)

set_target_properties(ddprun_runtime PROPERTIES EXPORT_NAME ddprun INSTALL_RPATH "$ORIGIN;${Libtorch_LIBRARY_DIR}")
install(TARGETS ddprun_runtime EXPORT ddprunTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET ddprun_nccl)
  set_target_properties(ddprun_nccl PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS ddprun_nccl LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/worker/include/ddprun DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_BINARY_DIR}/include/ddprun/version.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ddprun)
# The one header of rendezvous/base that the public ones include, found beside them.
install(FILES ${PROJECT_SOURCE_DIR}/rendezvous/base/error_code.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ddprun/rendezvous/base)

install(EXPORT ddprunTargets NAMESPACE ddprun:: DESTINATION ${_package})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/ddprunConfig.cmake.in
  ${PROJECT_BINARY_DIR}/ddprunConfig.cmake INSTALL_DESTINATION ${_package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ddprunConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ddprunConfig.cmake ${PROJECT_BINARY_DIR}/ddprunConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/scripts/cmake/FindLibtorch.cmake DESTINATION ${_package})
foreach(_program ddprun ddprun-worker)
  if(TARGET ${_program})
    install(TARGETS ${_program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    set_target_properties(${_program} PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  endif()
endforeach()

# Man pages say what the programs say of themselves.
find_program(DDPRUN_PYTHON3 python3 REQUIRED)
set(_man ${PROJECT_BINARY_DIR}/man)
install(CODE "execute_process(COMMAND \"${DDPRUN_PYTHON3}\" -B \"${PROJECT_SOURCE_DIR}/scripts/make_man.py\" \"$<TARGET_FILE:ddprun>\" \"${_man}\"
                              COMMAND_ERROR_IS_FATAL ANY)")
install(FILES ${_man}/ddprun.1 ${_man}/ddprun-worker.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${_man}/ddprun-job.5 DESTINATION ${CMAKE_INSTALL_MANDIR}/man5)
