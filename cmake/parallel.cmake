# What parallel/data_parallel.cpp needs beyond libtorch: gloo's headers, and NCCL's where libtorch has CUDA.

include(CheckIncludeFileCXX)
check_include_file_cxx(gloo/rendezvous/store.h ASR_HAVE_GLOO_HEADERS)
set(parallel_options "")
if(NOT ASR_HAVE_GLOO_HEADERS)
  # A PyTorch wheel holds gloo but not its headers. ProcessGroupGloo.hpp handles gloo's objects through pointers, so
  # declarations do.
  list(APPEND parallel_options "-I${PROJECT_SOURCE_DIR}/cmake/gloo")
endif()

if(TARGET torch_cuda)
  get_filename_component(torch_root "${TORCH_INSTALL_PREFIX}" ABSOLUTE)
  file(GLOB nvidia_includes ${torch_root}/../nvidia/nccl/include ${torch_root}/../nvidia/cu*/include)
  file(GLOB nvidia_libraries ${torch_root}/../nvidia/nccl/lib ${torch_root}/../nvidia/cu*/lib)
  find_path(ASR_NCCL_INCLUDE nccl.h HINTS ${nvidia_includes})
  find_library(ASR_NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${nvidia_libraries})
  find_path(ASR_CUDA_INCLUDE cuda_runtime_api.h
    HINTS ${CUDAToolkit_INCLUDE_DIRS} ${CUDA_INCLUDE_DIRS} ${nvidia_includes} /usr/local/cuda/include)
  if(ASR_NCCL_INCLUDE AND ASR_NCCL_LIBRARY AND ASR_CUDA_INCLUDE)
    list(APPEND parallel_options -DASR_NCCL "-idirafter${ASR_NCCL_INCLUDE}"
      "-idirafter${ASR_CUDA_INCLUDE}")
    target_link_libraries(asr_parallel PUBLIC ${ASR_NCCL_LIBRARY})
    message(STATUS "Runs over several GPUs: NCCL of ${ASR_NCCL_INCLUDE}")
  else()
    message(STATUS "Runs over several GPUs: no, NCCL was not found (nccl.h, libnccl, cuda_runtime_api.h)")
  endif()
endif()
set_source_files_properties(src/parallel/data_parallel.cpp PROPERTIES COMPILE_OPTIONS "${parallel_options}")
