# Our CUDA kernels as plain C++ in test_cuda_on_host, for machines without a GPU: what stands in for CUDA's headers is in
# tests/cuda_on_host/. The program's own library has functions of the same names, which say that there are no kernels; as
# objects of the test these here come first.

set(folder ${CMAKE_CURRENT_SOURCE_DIR}/cuda_on_host)
set(kernels_on_host "")
file(GLOB kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/ops/*_cuda.cu)
foreach(file ${kernels})
  get_filename_component(name ${file} NAME_WE)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/cuda_on_host/${name}.cpp)
  add_custom_command(OUTPUT ${out} COMMAND sed -f ${folder}/launches.sed ${file} > ${out}
    DEPENDS ${file} ${folder}/launches.sed VERBATIM)
  list(APPEND kernels_on_host ${out})
endforeach()
file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/cuda_on_host)
add_library(cuda_on_host OBJECT ${kernels_on_host})
target_include_directories(cuda_on_host BEFORE PRIVATE ${folder} ${PROJECT_SOURCE_DIR})
target_compile_options(cuda_on_host PRIVATE -Wno-unknown-pragmas -Wno-attributes $<$<CONFIG:Release>:-O1>)
target_link_libraries(cuda_on_host PRIVATE asr_torch asr_ops)
asr_test(cuda_on_host SUITES LABEL unit DEPENDS asr_nn asr_spectral)
target_sources(test_cuda_on_host PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/ops/cuda_layers_test.cpp
  ${CMAKE_CURRENT_SOURCE_DIR}/ops/descriptor_test.cpp ${CMAKE_CURRENT_SOURCE_DIR}/ops/masked_low_rank_test.cpp
  ${CMAKE_CURRENT_SOURCE_DIR}/ops/weight_formats_test.cpp ${CMAKE_CURRENT_SOURCE_DIR}/spectral/heads_test.cpp
  $<TARGET_OBJECTS:cuda_on_host>)
target_include_directories(test_cuda_on_host PRIVATE ${folder})
target_compile_definitions(test_cuda_on_host PRIVATE ASR_CUDA_ON_HOST)
