# Finds the libtorch inside a pip wheel and makes the targets Libtorch::torch and, where the wheel's CUDA headers are
# installed, Libtorch::nccl.
#
# Looked for, in this order: -DDDPRUN_TORCH=…/site-packages/torch, the environment variable of that name, .venv of
# this repository. TorchConfig.cmake is not used: it insists on a CUDA toolkit, and links every CUDA library into every
# program, which triples the start-up time. Importing torch_cpu and c10 alone does neither.

# The releases that ddprun is built with: the first is what scripts/setup.sh installs and scripts/test.sh --all tests, with the
# second scripts/other_torch.sh compiles the library. scripts/common.sh reads this line.
set(Libtorch_RELEASES 2.11.0 2.15.0)
# And the releases of torchvision that belong to them, the peer of the tests of models; scripts/common.sh reads it, too.
set(Libtorch_TORCHVISION 0.26.0 0.29.2)
list(GET Libtorch_RELEASES 0 _installed)

if(NOT DDPRUN_TORCH AND DEFINED ENV{DDPRUN_TORCH})
  set(DDPRUN_TORCH $ENV{DDPRUN_TORCH})
endif()
if(NOT DDPRUN_TORCH)
  file(GLOB _candidates ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
  list(SORT _candidates COMPARE NATURAL ORDER DESCENDING)
  list(GET _candidates 0 DDPRUN_TORCH)
endif()
set(DDPRUN_TORCH "${DDPRUN_TORCH}" CACHE PATH "site-packages/torch of a pip wheel of libtorch")

set(Libtorch_VERSION "")
if(EXISTS "${DDPRUN_TORCH}/version.py")
  file(STRINGS "${DDPRUN_TORCH}/version.py" _line REGEX "^__version__")
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" Libtorch_VERSION "${_line}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Libtorch REQUIRED_VARS DDPRUN_TORCH Libtorch_VERSION VERSION_VAR Libtorch_VERSION
  REASON_FAILURE_MESSAGE "no libtorch at '${DDPRUN_TORCH}': run scripts/setup.sh, or set DDPRUN_TORCH to the folder site-packages/torch of a pip-installed torch ${_installed}")

if(Libtorch_FOUND AND NOT TARGET Libtorch::torch)
  if(NOT Libtorch_VERSION IN_LIST Libtorch_RELEASES)
    list(JOIN Libtorch_RELEASES " and " _releases)
    message(WARNING "libtorch ${Libtorch_VERSION} at ${DDPRUN_TORCH}: ddprun is built with ${_releases}")
  endif()
  set(Libtorch_LIBRARY_DIR ${DDPRUN_TORCH}/lib)
  add_library(Libtorch::torch INTERFACE IMPORTED)
  # The wheel also ships the headers of another fmt, without its library. They must not stand before the fmt that we
  # link, and /usr/include cannot be put first: gcc keeps system folders last. A link in a folder of our own can.
  if(TARGET fmt::fmt)
    get_target_property(_fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/fmt_first)
    file(CREATE_LINK ${_fmt_include}/fmt ${PROJECT_BINARY_DIR}/fmt_first/fmt SYMBOLIC)
    target_include_directories(Libtorch::torch SYSTEM INTERFACE ${PROJECT_BINARY_DIR}/fmt_first)
  endif()
  target_include_directories(Libtorch::torch SYSTEM INTERFACE
    ${DDPRUN_TORCH}/include ${DDPRUN_TORCH}/include/torch/csrc/api/include)
  target_compile_definitions(Libtorch::torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
  # gcc compiled it. From 18 on clang gives functions whose template's parameters have constraints names that gcc does not, among them
  # Tensor::const_data_ptr.
  target_compile_options(Libtorch::torch INTERFACE
    $<$<AND:$<COMPILE_LANG_AND_ID:CXX,Clang>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,18>>:-fclang-abi-compat=17>)
  target_link_libraries(Libtorch::torch INTERFACE
    ${Libtorch_LIBRARY_DIR}/libtorch_cpu.so ${Libtorch_LIBRARY_DIR}/libc10.so Threads::Threads)
  # torch_cpu needs libcudart and libcupti and finds them beside itself through its own RPATH; the linker need not.
  target_link_options(Libtorch::torch INTERFACE -Wl,--allow-shlib-undefined -Wl,-rpath,${Libtorch_LIBRARY_DIR})

  get_filename_component(_site ${DDPRUN_TORCH} DIRECTORY)
  file(GLOB _nccl_library ${_site}/nvidia/nccl/lib/libnccl.so.2)
  # What was found beside another torch is not to stay.
  if(NOT DDPRUN_CUDA_FOUND_FOR STREQUAL DDPRUN_TORCH)
    unset(DDPRUN_CUDA_CRT CACHE)
    unset(DDPRUN_CUDA_CCCL CACHE)
    set(DDPRUN_CUDA_FOUND_FOR "${DDPRUN_TORCH}" CACHE INTERNAL "The torch beside which the next two were looked for")
  endif()
  # CUDA's headers include crt/… and nv/…, which the wheels nvidia-cuda-crt and nvidia-cuda-cccl or a CUDA toolkit bring.
  find_path(DDPRUN_CUDA_CRT crt/host_defines.h HINTS ${_site}/nvidia/cu13/include PATHS /usr/local/cuda/include)
  find_path(DDPRUN_CUDA_CCCL nv/target HINTS ${_site}/nvidia/cu13/include
            PATHS /usr/local/cuda/include /usr/local/cuda/include/cccl)
  mark_as_advanced(DDPRUN_CUDA_CRT DDPRUN_CUDA_CCCL)
  set(_lacking "")
  foreach(_part "crt/host_defines.h (of nvidia-cuda-crt)=${DDPRUN_CUDA_CRT}/crt/host_defines.h"
                "nv/target (of nvidia-cuda-cccl)=${DDPRUN_CUDA_CCCL}/nv/target"
                "cuda_runtime_api.h (of nvidia-cuda-runtime)=${_site}/nvidia/cu13/include/cuda_runtime_api.h"
                "nccl.h (of nvidia-nccl-cu13)=${_site}/nvidia/nccl/include/nccl.h"
                "libnccl.so.2 (of nvidia-nccl-cu13)=${_nccl_library}"
                "libtorch_cuda.so=${Libtorch_LIBRARY_DIR}/libtorch_cuda.so")
    string(REGEX MATCH "^([^=]*)=(.*)$" _ "${_part}")
    if(NOT CMAKE_MATCH_2 OR NOT EXISTS "${CMAKE_MATCH_2}")
      list(APPEND _lacking "${CMAKE_MATCH_1}")
    endif()
  endforeach()
  if(NOT _lacking)
    add_library(Libtorch::nccl INTERFACE IMPORTED)
    target_include_directories(Libtorch::nccl SYSTEM INTERFACE
      ${_site}/nvidia/cu13/include ${_site}/nvidia/nccl/include ${DDPRUN_CUDA_CRT} ${DDPRUN_CUDA_CCCL})
    target_compile_definitions(Libtorch::nccl INTERFACE USE_C10D_NCCL)
    target_link_libraries(Libtorch::nccl INTERFACE Libtorch::torch
      ${Libtorch_LIBRARY_DIR}/libtorch_cuda.so ${Libtorch_LIBRARY_DIR}/libc10_cuda.so ${_nccl_library})
    message(STATUS "libtorch ${Libtorch_VERSION} at ${DDPRUN_TORCH}, with NCCL headers: GPU support is built")
  elseif(PROJECT_NAME STREQUAL "ddprun")  # a program that uses the installed library needs none of them
    # Who has NCCL beside torch has installed it whole, for GPUs; without it, as scripts/setup.sh installs it, it is for CPUs.
    set(_loudness STATUS)
    set(_remedy "scripts/setup.sh --with-tests brings them")
    if(_nccl_library AND EXISTS ${Libtorch_LIBRARY_DIR}/libtorch_cuda.so)
      set(_loudness WARNING)
      file(GLOB _runtime ${_site}/nvidia_cuda_runtime-*.dist-info)
      string(REGEX MATCH "nvidia_cuda_runtime-([0-9]+\\.[0-9]+)" _ "${_runtime}")
      set(_remedy "pip install 'nvidia-cuda-crt==${CMAKE_MATCH_1}.*' 'nvidia-cuda-cccl==${CMAKE_MATCH_1}.*' brings them, into the environment of this torch")
    endif()
    list(JOIN _lacking ", " _lacking)
    message(${_loudness} "libtorch ${Libtorch_VERSION} at ${DDPRUN_TORCH}, without ${_lacking}: "
                         "GPU support (backend nccl) is LEFT OUT; ${_remedy}")
  endif()
endif()
