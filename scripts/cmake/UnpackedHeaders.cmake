# Sets DDPRUN_CACHE, where scripts/setup.sh has unpacked headers for this user: valijson's, and on Debian 11 all of Debian 12's.
if(DEFINED ENV{XDG_CACHE_HOME} AND NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
  set(DDPRUN_CACHE $ENV{XDG_CACHE_HOME}/ddprun)
else()
  set(DDPRUN_CACHE $ENV{HOME}/.cache/ddprun)
endif()
set(DDPRUN_UNPACKED_HEADERS ${DDPRUN_CACHE}/debian12/usr/include)
