# Sets VALIJSON_INCLUDE_DIR: of the package where that is installed, or of what scripts/setup.sh has unpacked for this user.
include(${CMAKE_CURRENT_LIST_DIR}/UnpackedHeaders.cmake)
find_path(VALIJSON_INCLUDE_DIR valijson/validator.hpp PATHS ${DDPRUN_CACHE}/valijson/usr/include)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Valijson REQUIRED_VARS VALIJSON_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "no valijson/validator.hpp: scripts/setup.sh brings it, or Debian's libvalijson-dev")
