# The CPU kernels are plain C++ without torch, compiled once per instruction set and chosen at run time.

set(kernel_source ${CMAKE_SOURCE_DIR}/src/spectral/kernel/spectrum_kernel.cpp)
function(asr_kernel name)
  add_library(asr_kernel_${name} OBJECT ${kernel_source})
  target_compile_features(asr_kernel_${name} PRIVATE cxx_std_17)
  target_include_directories(asr_kernel_${name} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  # Wide vectors are lowered where the set lacks them; nothing of them crosses a function boundary.
  target_compile_options(asr_kernel_${name} PRIVATE ${ASR_WARNINGS} -Wno-psabi -O3 -fno-math-errno
    -DASR_KERNEL=${name} ${ARGN})
  target_link_libraries(asr_spectral PUBLIC $<TARGET_OBJECTS:asr_kernel_${name}>)
  target_compile_definitions(asr_spectral PRIVATE ASR_HAVE_KERNEL_${name})
endfunction()

asr_kernel(portable)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  asr_kernel(avx2 -march=x86-64-v3)
endif()
