# One static library a folder of src/. Warnings are errors in our targets.

set(ASR_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Werror)
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-Wdangling-reference ASR_HAVE_DANGLING_REFERENCE)
if(ASR_HAVE_DANGLING_REFERENCE)
  list(APPEND ASR_WARNINGS -Wno-dangling-reference)  # g++ 13 takes every `const auto& x = f("text")` for one
endif()

# Much of the time a file takes to compile is its headers' templates, once for a whole batch here. Files of a batch share
# their unnamed namespace. Where two of them use a name for different things, ALONE (further arguments, of a library's
# folder) takes one out of its batch.
function(asr_batches target most)
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources files)
  math(EXPR batches "(${files} + ${most} - 1) / ${most}")
  math(EXPR files "(${files} + ${batches} - 1) / ${batches}")  # about as many in each, so that both cores end together
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${ASR_UNITY} UNITY_BUILD_BATCH_SIZE ${files})
  if(ASR_UNITY)
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)  # g++ takes what is not the batch itself for a header
  endif()
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

include(GNUInstallDirs)
function(asr_public_headers target kind)
  target_include_directories(${target} ${kind} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/asr>)
endfunction()

# To other projects a folder's library is asr::FOLDER, whether they build it or find it installed.
function(asr_offer name)
  set_target_properties(asr_${name} PROPERTIES EXPORT_NAME ${name})
  add_library(asr::${name} ALIAS asr_${name})
  set_property(GLOBAL APPEND PROPERTY ASR_LIBRARIES asr_${name})
endfunction()

# For folders that only arrange what others compute: less optimisation, a tenth to a quarter less of the compiler's time.
function(asr_cold target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# The torch-free folders are C++17, so that clang's fuzzers can parse them too. WITHOUT names a subfolder that is a
# library of its own.
function(asr_plain_library folder)
  cmake_parse_arguments(arg "" "WITHOUT" "DEPENDS;ALONE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.cpp)
  if(arg_WITHOUT)
    list(FILTER sources EXCLUDE REGEX "/src/${folder}/${arg_WITHOUT}/")
  endif()
  add_library(asr_${folder} STATIC ${sources})
  target_compile_features(asr_${folder} PUBLIC cxx_std_17)
  target_compile_options(asr_${folder} PRIVATE ${ASR_WARNINGS})
  asr_public_headers(asr_${folder} PUBLIC)
  target_link_libraries(asr_${folder} PUBLIC ${arg_DEPENDS})
  asr_offer(${folder})
  list(TRANSFORM arg_ALONE PREPEND ${PROJECT_SOURCE_DIR}/src/${folder}/)
  asr_batches(asr_${folder} 24 ${arg_ALONE})
endfunction()

# A subfolder's library has an underscore for the slash: skills/parser is asr_skills_parser. WITHOUT names a file. Large
# batches: a third of the time goes to headers even so (the preset dev has none, for work on single files).
function(asr_torch_library folder)
  cmake_parse_arguments(arg "" "WITHOUT" "DEPENDS;ALONE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.cpp
    ${PROJECT_SOURCE_DIR}/src/${folder}/terms/*.cpp)
  if(arg_WITHOUT)
    list(REMOVE_ITEM sources ${PROJECT_SOURCE_DIR}/src/${folder}/${arg_WITHOUT})
  endif()
  string(REPLACE "/" "_" name ${folder})
  add_library(asr_${name} STATIC ${sources})
  asr_use_torch(asr_${name})
  target_link_libraries(asr_${name} PUBLIC ${arg_DEPENDS})
  asr_offer(${name})
  list(TRANSFORM arg_ALONE PREPEND ${PROJECT_SOURCE_DIR}/src/${folder}/)
  asr_batches(asr_${name} 24 ${arg_ALONE})
endfunction()
