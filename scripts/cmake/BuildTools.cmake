# Faster rebuilds and links where the tools are there; nothing depends on them.
find_program(DDPRUN_CCACHE ccache)
if(DDPRUN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The sloppiness is what ccache asks for to cache translation units that use a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${DDPRUN_CCACHE})
endif()
find_program(DDPRUN_MOLD mold)
if(DDPRUN_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
