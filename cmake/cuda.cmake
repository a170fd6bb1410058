# Our own CUDA kernels: src/ops/*_cuda.cu, compiled by nvcc where libtorch has CUDA and there is one. They see nothing of
# libtorch, so plain commands do. Without nvcc the library's operators serve.

set(ASR_CUDA_ARCHITECTURES "80;90" CACHE STRING "GPUs that CUDA kernels are compiled for; newer ones compile from PTX")
if(NOT TARGET torch_cuda)
  return()
endif()
find_program(ASR_NVCC nvcc HINTS ${CUDAToolkit_BIN_DIR} /usr/local/cuda/bin)
get_filename_component(torch_root "${TORCH_INSTALL_PREFIX}" ABSOLUTE)
file(GLOB nvidia_libraries ${torch_root}/../nvidia/cu*/lib ${torch_root}/../nvidia/cuda_runtime/lib)
find_library(ASR_CUDART NAMES cudart libcudart.so.13 libcudart.so.12 HINTS ${nvidia_libraries} /usr/local/cuda/lib64)
if(NOT ASR_NVCC OR NOT ASR_CUDART)
  message(STATUS "CUDA kernels of our own: no, nvcc or libcudart was not found")
  return()
endif()

set(gencode "")
foreach(architecture ${ASR_CUDA_ARCHITECTURES})
  list(APPEND gencode -gencode=arch=compute_${architecture},code=sm_${architecture})
endforeach()
list(GET ASR_CUDA_ARCHITECTURES -1 newest)
list(APPEND gencode -gencode=arch=compute_${newest},code=compute_${newest})
file(GLOB kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/ops/*_cuda.cu)
foreach(file ${kernels})
  get_filename_component(name ${file} NAME_WE)
  set(object ${PROJECT_BINARY_DIR}/cuda/${name}.o)
  add_custom_command(OUTPUT ${object}
    COMMAND ${ASR_NVCC} -std=c++17 -O3 -Xcompiler -fPIC,-Wall,-Wextra -Werror all-warnings ${gencode}
      -I${PROJECT_SOURCE_DIR}/src -MD -MF ${object}.d -MT ${object} -c ${file} -o ${object}
    DEPENDS ${file} DEPFILE ${object}.d COMMENT "CUDA kernel ${name}" VERBATIM)
  target_sources(asr_ops PRIVATE ${object})
  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
endforeach()
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/cuda)
set_source_files_properties(src/ops/cuda_presence.cpp PROPERTIES COMPILE_DEFINITIONS ASR_CUDA_KERNELS)
target_link_libraries(asr_ops PUBLIC ${ASR_CUDART})
message(STATUS "CUDA kernels of our own: ${ASR_NVCC}")
