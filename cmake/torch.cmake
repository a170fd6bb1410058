# Finds libtorch (Debian's 1.13, or a newer one named by CMAKE_PREFIX_PATH or a Python interpreter)
# and builds the one precompiled header that every torch-using target shares.

if(ASR_TORCH_FROM_PYTHON)
  execute_process(
    COMMAND ${ASR_TORCH_FROM_PYTHON} -c "import torch; print(torch.utils.cmake_prefix_path)"
    OUTPUT_VARIABLE torch_prefix OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "'${ASR_TORCH_FROM_PYTHON}' cannot import torch; "
      "set ASR_TORCH_FROM_PYTHON to an interpreter that can, or leave it empty for the system's libtorch")
  endif()
  list(PREPEND CMAKE_PREFIX_PATH ${torch_prefix})
endif()
find_package(Torch REQUIRED)
find_package(OpenMP REQUIRED)  # at::parallel_for is a header of OpenMP pragmas

# A PyTorch wheel ships its own fmt headers inside its include folder; searched last, it cannot hide ours.
set(torch_includes "")
foreach(folder ${TORCH_INCLUDE_DIRS})
  list(APPEND torch_includes "SHELL:-idirafter ${folder}")
endforeach()
foreach(library torch torch_library torch_cpu torch_cuda c10 c10_cuda)
  if(TARGET ${library})
    set_property(TARGET ${library} PROPERTY INTERFACE_INCLUDE_DIRECTORIES "")
    set_property(TARGET ${library} PROPERTY INTERFACE_COMPILE_OPTIONS "")
  endif()
endforeach()

add_library(asr_torch INTERFACE)
set_target_properties(asr_torch PROPERTIES EXPORT_NAME torch)
target_compile_features(asr_torch INTERFACE cxx_std_20)
target_compile_options(asr_torch INTERFACE ${torch_includes} $<BUILD_INTERFACE:-fpch-preprocess> ${OpenMP_CXX_FLAGS})
separate_arguments(torch_flags UNIX_COMMAND "${TORCH_CXX_FLAGS}")
target_compile_options(asr_torch INTERFACE ${torch_flags})
asr_public_headers(asr_torch INTERFACE)
# The wheel's libtorch.so exports a broken copy of std::filesystem; libstdc++ named first is searched first.
target_link_options(asr_torch INTERFACE "-Wl,--push-state,--no-as-needed,-l:libstdc++.so.6,--pop-state")
target_link_libraries(asr_torch INTERFACE $<BUILD_INTERFACE:${TORCH_LIBRARIES}> ${OpenMP_CXX_FLAGS} ${CMAKE_DL_LIBS})

# An installed library names libtorch's files: who uses it need not find Torch, nor take the include folders of its
# targets. Nothing calls the CUDA part by name, so libtorch.so, which loads it, must stay.
foreach(library torch_cpu c10 torch_cuda c10_cuda)
  if(TARGET ${library})
    get_target_property(file ${library} LOCATION)
    target_link_libraries(asr_torch INTERFACE $<INSTALL_INTERFACE:${file}>)
  endif()
endforeach()
get_target_property(file torch LOCATION)
target_link_libraries(asr_torch INTERFACE "$<INSTALL_INTERFACE:-Wl,--push-state,--no-as-needed,${file},--pop-state>")

# torch/types.h costs seconds a file; parsed once here. Every user must have the same flags.
add_library(asr_pch OBJECT ${PROJECT_SOURCE_DIR}/cmake/pch.cpp)
target_link_libraries(asr_pch PRIVATE asr_torch asr_base)
target_compile_options(asr_pch PRIVATE ${ASR_WARNINGS})
target_precompile_headers(asr_pch PRIVATE <torch/types.h> <nlohmann/json.hpp>)

function(asr_use_torch target)
  target_link_libraries(${target} PUBLIC asr_torch)
  target_compile_options(${target} PRIVATE ${ASR_WARNINGS})
  target_precompile_headers(${target} REUSE_FROM asr_pch)
endfunction()
