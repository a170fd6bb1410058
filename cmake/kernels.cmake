# The CPU kernels are plain C++ without torch, compiled once per instruction set and chosen at run time
# (tensor/cpu_kernel.h).

function(asr_kernel folder name)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/kernel/*.cpp)
  set(target asr_${folder}_kernel_${name})
  add_library(${target} OBJECT ${sources})
  target_compile_features(${target} PRIVATE cxx_std_17)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  # Wide vectors are lowered where the set lacks them; nothing of them crosses a function boundary.
  target_compile_options(${target} PRIVATE ${ASR_WARNINGS} -Wno-psabi -O3 -fno-math-errno -DASR_KERNEL=${name} ${ARGN})
  target_sources(asr_${folder} PRIVATE $<TARGET_OBJECTS:${target}>)
  target_compile_definitions(asr_${folder} PRIVATE ASR_HAVE_KERNEL_${name})
endfunction()

asr_kernel(spectral portable)
asr_kernel(nn portable)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  asr_kernel(spectral avx2 -march=x86-64-v3)
  asr_kernel(nn avx2 -march=x86-64-v3)
  asr_kernel(nn avx512 -march=x86-64-v4)
endif()
