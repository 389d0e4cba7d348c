# Two uses. Included: penstock_build_info(<target> <template>) gives the target a source that says what was built with
# what. Run as a script by that target's build (cmake -P): renews the source where the git id has changed; a configure
# step alone would keep the id of the day it ran.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  function(penstock_build_info target template)
    set(libraries "")
    foreach(name fmt nlohmann_json tomlplusplus CLI11 OneDNN XXHASH PCRE2 UTF8PROC ZLIB ZSTD OpenMP_CXX)
      if(${name}_VERSION)
        string(REPLACE "OpenMP_CXX" "OpenMP" shown ${name})
        string(APPEND libraries "{\"${shown}\", \"${${name}_VERSION}\"}, ")
      endif()
    endforeach()
    string(REGEX REPLACE ", $" "" libraries "${libraries}")
    set(cuda false)
    if(TARGET penstock_cuda) # the backend, not merely a compiler
      set(cuda true)
    endif()
    set(output ${PROJECT_BINARY_DIR}/generated/build_info.cpp)
    set(renew ${CMAKE_COMMAND}
        "-DPENSTOCK_VERSION=${PROJECT_VERSION}" "-DPENSTOCK_SOURCE_DIR=${PROJECT_SOURCE_DIR}"
        "-DPENSTOCK_COMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
        "-DPENSTOCK_BUILD_TYPE=${CMAKE_BUILD_TYPE}" "-DPENSTOCK_SANITIZE=${PENSTOCK_SANITIZE}"
        "-DPENSTOCK_CPU_ARCH=${PENSTOCK_CPU_ARCH}" "-DPENSTOCK_CUDA_FOUND=${cuda}"
        "-DPENSTOCK_LIBRARIES=${libraries}" "-DTEMPLATE=${template}" "-DOUTPUT=${output}"
        -P ${PROJECT_SOURCE_DIR}/cmake/PenstockBuildInfo.cmake)
    execute_process(COMMAND ${renew} COMMAND_ERROR_IS_FATAL ANY)
    add_custom_target(${target}_build_info COMMAND ${renew} BYPRODUCTS ${output} VERBATIM COMMENT "")
    target_sources(${target} PRIVATE ${output})
    add_dependencies(${target} ${target}_build_info)
  endfunction()
  return()
endif()

find_program(GIT git)
set(PENSTOCK_GIT_ID "unknown")
if(GIT)
  execute_process(COMMAND ${GIT} -C ${PENSTOCK_SOURCE_DIR} describe --always --dirty --tags
                  OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(PENSTOCK_GIT_ID ${described})
  endif()
endif()
configure_file(${TEMPLATE} ${OUTPUT} @ONLY)
