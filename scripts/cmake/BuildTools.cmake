# Faster rebuilds and links where the tools are there; nothing depends on them.
find_program(DDPRUN_CCACHE ccache)
if(DDPRUN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The sloppiness is what ccache asks for to cache translation units that use a precompiled header. With a base
  # directory, and without debug information that names one, another clone of the repository takes what this one compiled.
  set(_settings CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
                CCACHE_BASEDIR=${PROJECT_SOURCE_DIR})
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    list(APPEND _settings CCACHE_NOHASHDIR=1)
  endif()
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env ${_settings} ${DDPRUN_CCACHE})
endif()
find_program(DDPRUN_MOLD mold)
if(DDPRUN_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
