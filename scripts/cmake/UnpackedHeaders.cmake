# Sets DDPRUN_UNPACKED_HEADERS: the folder of what scripts/setup.sh has unpacked for this user, which need not be there.
if(DEFINED ENV{XDG_CACHE_HOME} AND NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
  set(DDPRUN_UNPACKED_HEADERS $ENV{XDG_CACHE_HOME})
else()
  set(DDPRUN_UNPACKED_HEADERS $ENV{HOME}/.cache)
endif()
string(APPEND DDPRUN_UNPACKED_HEADERS /ddprun/headers/usr/include)
