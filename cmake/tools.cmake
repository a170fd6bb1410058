# Compiler cache, linker and sanitizers: each used where present, none required.

find_program(ASR_CCACHE ccache)
if(ASR_CCACHE)
  # The precompiled header is only cacheable with these two settings and -fpch-preprocess.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${ASR_CCACHE})
endif()

find_program(ASR_LLD ld.lld)
if(ASR_LLD)
  add_link_options(-fuse-ld=lld)
endif()

if(ASR_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
  # g++ 12 sees errors in headers of the library and of libtorch once they are instrumented.
  add_compile_options(-Wno-error=stringop-overflow -Wno-error=maybe-uninitialized)
endif()
if(ASR_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  add_link_options(-fsanitize=address,undefined)
endif()
