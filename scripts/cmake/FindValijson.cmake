# Sets VALIJSON_INCLUDE_DIR: of the package where that is installed, or of what scripts/setup.sh has unpacked for this user.
if(DEFINED ENV{XDG_CACHE_HOME} AND NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
  set(_cache $ENV{XDG_CACHE_HOME})
else()
  set(_cache $ENV{HOME}/.cache)
endif()
find_path(VALIJSON_INCLUDE_DIR valijson/validator.hpp PATHS ${_cache}/ddprun/valijson/usr/include)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Valijson REQUIRED_VARS VALIJSON_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "no valijson/validator.hpp: scripts/setup.sh brings it, or Debian's libvalijson-dev")
