# Every third-party library, its minimum version, and a plain message when it is missing (docs/install.md says why
# each is needed). `scripts/setup` installs all of them on Debian and Ubuntu.
find_package(Threads REQUIRED)
find_package(fmt 8.1 REQUIRED)
find_package(nlohmann_json 3.9 REQUIRED)
find_package(tomlplusplus 3.0 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
find_package(OneDNN 2.6 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash>=0.8)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8>=10.36)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc>=2.3)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib>=1.2.11)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd>=1.4)
# Thread sanitizer cannot see into OpenMP: loops run serially there (and oneDNN on one thread).
if(NOT PENSTOCK_SANITIZE MATCHES "thread")
  find_package(OpenMP REQUIRED COMPONENTS CXX)
endif()

if(PENSTOCK_TESTS)
  find_package(GTest 1.11 REQUIRED)
  find_package(rapidcheck REQUIRED)
endif()
if(PENSTOCK_BENCHMARKS)
  find_package(benchmark 1.6 REQUIRED)
endif()

# The C bindings, through the C++ compiler: the project enables no other language.
set(PENSTOCK_HAVE_MPI OFF)
if(NOT PENSTOCK_MPI STREQUAL "OFF")
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI 3.1 QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(PENSTOCK_HAVE_MPI ON)
  elseif(PENSTOCK_MPI STREQUAL "ON")
    message(FATAL_ERROR "PENSTOCK_MPI=ON, but no MPI was found; install libopenmpi-dev or put mpicxx on PATH")
  endif()
  message(STATUS "Transport mpi: ${PENSTOCK_HAVE_MPI}")
endif()

include(CheckLanguage)
set(PENSTOCK_HAVE_CUDA OFF)
if(NOT PENSTOCK_CUDA STREQUAL "OFF")
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(PENSTOCK_HAVE_CUDA ON)
  elseif(PENSTOCK_CUDA STREQUAL "ON")
    message(FATAL_ERROR "PENSTOCK_CUDA=ON, but no CUDA compiler was found; put nvcc on PATH or set CUDACXX")
  endif()
endif()

if(PENSTOCK_HAVE_CUDA)
  set(CMAKE_CUDA_ARCHITECTURES OFF) # named with the kernels: CMake does not know them all
  if(CCACHE_PROGRAM AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  endif()
  set(CMAKE_CUDA_STANDARD 17) # for CMake's own trial; it knows nvcc's flag for 20 since 3.26 only
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 20)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  # Its shared libraries alone, never the driver: a program that was built with CUDA runs on machines without one.
  find_package(CUDAToolkit REQUIRED)

  # Attention by cuDNN: its header, and its front end's, which NVIDIA hands out on PyPI (`scripts/setup` puts them here).
  find_path(PENSTOCK_CUDNN_INCLUDE_DIR cudnn_version.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_path(PENSTOCK_CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h
            HINTS ${PROJECT_SOURCE_DIR}/build/cudnn_frontend/include)
  set(PENSTOCK_HAVE_CUDNN OFF)
  if(PENSTOCK_CUDNN_INCLUDE_DIR AND PENSTOCK_CUDNN_FRONTEND_INCLUDE_DIR)
    set(PENSTOCK_HAVE_CUDNN ON)
  endif()
  message(STATUS "Attention by cuDNN: ${PENSTOCK_HAVE_CUDNN} (${PENSTOCK_CUDNN_INCLUDE_DIR}, "
                 "${PENSTOCK_CUDNN_FRONTEND_INCLUDE_DIR})")
endif()

# Messages between GPUs of several processes: the header alone, as the library is opened at its first call.
set(PENSTOCK_HAVE_NCCL OFF)
if(PENSTOCK_HAVE_CUDA)
  find_path(PENSTOCK_NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  if(PENSTOCK_NCCL_INCLUDE_DIR)
    set(PENSTOCK_HAVE_NCCL ON)
  endif()
endif()
message(STATUS "Transport nccl: ${PENSTOCK_HAVE_NCCL} (${PENSTOCK_NCCL_INCLUDE_DIR})")

# Tests run CUDA's kernels without a GPU: compiled as C++, on fibers (tests/simt).
if(PENSTOCK_TESTS AND PENSTOCK_HAVE_CUDA)
  set(PENSTOCK_CUDA_INCLUDE_DIR ${CUDAToolkit_INCLUDE_DIRS})
  find_package(Boost 1.74 REQUIRED COMPONENTS context)
endif()
