# The CPU kernels are plain C++ without torch, compiled once per instruction set and chosen at run time
# (tensor/cpu_kernel.h).

# asr_kernel(name [FILES file...] [FLAGS flag...]): a build of src/ops/kernel/, or of some of its files.
function(asr_kernel name)
  cmake_parse_arguments(arg "" "" "FILES;FLAGS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/ops/kernel/*.cpp)
  if(arg_FILES)
    list(TRANSFORM arg_FILES PREPEND ${PROJECT_SOURCE_DIR}/src/ops/kernel/ OUTPUT_VARIABLE sources)
  endif()
  set(target asr_kernel_${name})
  add_library(${target} OBJECT ${sources})
  target_compile_features(${target} PRIVATE cxx_std_17)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  # Wide vectors are lowered where the set lacks them; nothing of them crosses a function boundary.
  target_compile_options(${target} PRIVATE ${ASR_WARNINGS} -Wno-psabi -O3 -fno-math-errno -DASR_KERNEL=${name}
    ${arg_FLAGS})
  target_sources(asr_ops PRIVATE $<TARGET_OBJECTS:${target}>)
  target_compile_definitions(asr_ops PRIVATE ASR_HAVE_KERNEL_${name})
endfunction()

asr_kernel(portable)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  asr_kernel(avx2 FLAGS -march=x86-64-v3)
  asr_kernel(avx512 FILES attention_kernel.cpp row_kernel.cpp FLAGS -march=x86-64-v4)  # no gain for the spectrum
endif()
