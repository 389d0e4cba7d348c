# Language, warnings, floating point and sanitizers: the same for every target of the project.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "GCC ${CMAKE_CXX_COMPILER_VERSION} found; Penstock needs GCC 12 or newer, or Clang 14 or newer")
endif()

# Vectorised loops live in the kernels, which ask for -O3 themselves.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

add_library(penstock_compile_options INTERFACE)
target_include_directories(penstock_compile_options INTERFACE ${PROJECT_SOURCE_DIR})
# Bits must not depend on the compiler's choice of fused operations (contract C1 f): no contraction, no fast-math.
# -fno-math-errno and -fno-trapping-math change no value; without them the loops do not vectorise.
target_compile_options(penstock_compile_options INTERFACE
  -Wall -Wextra -Wpedantic -Werror -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wno-unknown-pragmas
  -ffp-contract=off -fno-math-errno -fno-trapping-math)

if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # It says so where a loop that asks for it cannot be vectorised, as below -O3.
  target_compile_options(penstock_compile_options INTERFACE -Wno-error=pass-failed)
endif()

if(PENSTOCK_SANITIZE)
  target_compile_options(penstock_compile_options INTERFACE
    -fsanitize=${PENSTOCK_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(penstock_compile_options INTERFACE -fsanitize=${PENSTOCK_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC's optimiser warns about its own instrumentation.
    target_compile_options(penstock_compile_options INTERFACE -Wno-maybe-uninitialized -Wno-tsan)
  endif()
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12.1)
  add_link_options(-fuse-ld=mold)
endif()
