# Programs that need a GPU to run. Each is built twice:
# - gpu/<name>: as the program itself, with the kernels that nvcc made. CI builds it and cannot run it.
# - gpu_rehearsal/<name>: the same sources on the stand-in for the CUDA runtime, with the kernels on the harness. The
#   kernels are part of a program, so no library path could exchange them.
# tests/trainer/cuda/matmul_roof.cpp takes the place of a measurement that would last half a minute there.
set(contract_of_transports kernels/transport/contract.cpp kernels/transport/buffer.cpp
    kernels/transport/message_cases.cpp kernels/transport/collective_cases.cpp kernels/transport/world_cases.cpp
    kernels/transport/clock_cases.cpp)
add_custom_target(gpu_binaries)
add_custom_target(gpu_rehearsal_binaries)

add_library(cublaslt_on_fake OBJECT ${fake_cublaslt})
target_link_libraries(cublaslt_on_fake PRIVATE penstock_compile_options fmt::fmt)
target_include_directories(cublaslt_on_fake SYSTEM PRIVATE ${PENSTOCK_CUDA_INCLUDE_DIR})

# penstock_gpu_program(<name> SOURCES … REAL_SOURCES … REHEARSAL_SOURCES … MODULES … LIBRARIES …). SOURCES are compiled once, for
# both. A source of REHEARSAL_SOURCES takes the place of what an archive has.
function(penstock_gpu_program name)
  cmake_parse_arguments(G "" "" "SOURCES;REAL_SOURCES;REHEARSAL_SOURCES;MODULES;LIBRARIES" ${ARGN})
  list(TRANSFORM G_MODULES PREPEND penstock_)
  set(libraries ${G_MODULES} penstock_compile_options ${G_LIBRARIES})
  add_library(gpu_objects_${name} OBJECT ${G_SOURCES})
  target_link_libraries(gpu_objects_${name} PRIVATE ${libraries})
  add_executable(gpu_${name} ${G_REAL_SOURCES})
  target_link_libraries(gpu_${name} PRIVATE gpu_objects_${name} ${libraries})
  add_executable(gpu_rehearsal_${name} ${G_REHEARSAL_SOURCES})
  target_link_libraries(gpu_rehearsal_${name} PRIVATE gpu_objects_${name} cublaslt_on_fake ${cuda_on_fake} ${libraries})
  foreach(kind gpu gpu_rehearsal)
    set_target_properties(${kind}_${name} PROPERTIES OUTPUT_NAME ${name} LINKER_LANGUAGE CXX
                          RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${kind})
    add_dependencies(${kind}_binaries ${kind}_${name})
  endforeach()
endfunction()

set(gtest GTest::gtest GTest::gmock GTest::gtest_main)
set(launcher_tests kernels/cuda/bias_test.cpp kernels/cuda/fused_norm_test.cpp kernels/cuda/optimizer_test.cpp)
file(GLOB gpu_math CONFIGURE_DEPENDS kernels/gpu/*.cpp)
set(cudnn_tests "")
if(PENSTOCK_HAVE_CUDNN)
  file(GLOB cudnn_tests CONFIGURE_DEPENDS kernels/gpu/cudnn/*.cpp)
endif()
penstock_gpu_program(test_kernels SOURCES ${math_tests} ${launcher_tests} ${gpu_math} kernels/cuda/products.cpp
                     REAL_SOURCES ${cudnn_tests} MODULES cuda reference cpu LIBRARIES ${gtest} fmt::fmt)
foreach(target gpu_objects_test_kernels gpu_test_kernels)
  target_compile_definitions(${target} PRIVATE PENSTOCK_GPU)
endforeach()

file(GLOB gpu_device CONFIGURE_DEPENDS kernels/gpu_device/*.cpp)
penstock_gpu_program(test_device SOURCES ${gpu_device} ${device_contract} MODULES cuda LIBRARIES ${gtest})

file(GLOB gpu_transport CONFIGURE_DEPENDS kernels/gpu_transport/*.cpp)
penstock_gpu_program(test_transport SOURCES ${gpu_transport} ${contract_of_transports}
                     MODULES transport_inproc cuda LIBRARIES ${gtest})
if(PENSTOCK_HAVE_NCCL)
  target_sources(gpu_objects_test_transport PRIVATE kernels/gpu_transport/nccl/contract_test.cpp
                                                    kernels/cuda_transport/nccl/nccl_ranks.cpp)
  target_link_libraries(gpu_rehearsal_test_transport PRIVATE nccl_on_fake)
  foreach(target gpu_objects_test_transport gpu_test_transport gpu_rehearsal_test_transport)
    target_link_libraries(${target} PRIVATE penstock_transport_nccl)
  endforeach()
endif()

file(GLOB gpu_training CONFIGURE_DEPENDS trainer/gpu/*.cpp)
penstock_gpu_program(test_training SOURCES ${gpu_training} REHEARSAL_SOURCES trainer/cuda/matmul_roof.cpp
                     MODULES trainer transport_inproc cuda LIBRARIES ${gtest})

file(GLOB program CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/trainer/main/*.cpp)
penstock_gpu_program(penstock SOURCES ${program} REHEARSAL_SOURCES trainer/cuda/matmul_roof.cpp
                     MODULES commands version)

set(bench ${CMAKE_CURRENT_SOURCE_DIR}/bench/gpu)
penstock_gpu_program(bench_kernels
                     SOURCES ${bench}/kernels_bench.cpp ${bench}/gpu_bench.cpp ${bench}/memory_kernels.cpp
                             ${bench}/optimizer_and_loss.cpp ${bench}/products.cpp
                     MODULES cuda LIBRARIES CLI11::CLI11 nlohmann_json::nlohmann_json fmt::fmt)
penstock_gpu_program(bench_training SOURCES ${bench}/training_bench.cpp
                     MODULES trainer transport_inproc cuda LIBRARIES CLI11::CLI11 nlohmann_json::nlohmann_json fmt::fmt)

# scripts/gpu_check.sh itself.
add_test(NAME program_gpu_check COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/program/gpu_check/rehearsal.sh
                                        ${PROJECT_BINARY_DIR}/gpu_rehearsal)
set_tests_properties(program_gpu_check PROPERTIES TIMEOUT 900 COST 1000)
