# `cmake --install` puts the program, the libraries with their headers, the assets and the package file that
# find_package(asr) reads under one prefix. A program of another project links asr::asr (all of it) or single folders,
# asr::spectral, and includes "spectral/descriptor.h", as it does after add_subdirectory.
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY ASR_LIBRARIES)
add_library(asr_all INTERFACE)
set_target_properties(asr_all PROPERTIES EXPORT_NAME asr)
target_link_libraries(asr_all INTERFACE ${libraries})
add_library(asr::asr ALIAS asr_all)

if(NOT ASR_INSTALL)
  return()
endif()

install(TARGETS asr_all ${libraries} EXPORT asr_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(ASR_TORCH)
  install(TARGETS asr_torch EXPORT asr_targets)
  install(TARGETS asr RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY src/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/asr
  FILES_MATCHING PATTERN "*.h" PATTERN "*.def" PATTERN cli EXCLUDE)
install(FILES src/cli/program.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/asr/cli)  # all that others need of it
install(DIRECTORY assets configs DESTINATION ${CMAKE_INSTALL_DATADIR}/asr PATTERN "*.log.jsonl" EXCLUDE)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/asr)
install(EXPORT asr_targets NAMESPACE asr:: FILE asrTargets.cmake DESTINATION ${package})
configure_package_config_file(cmake/asrConfig.cmake.in ${PROJECT_BINARY_DIR}/asrConfig.cmake
  INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/asrConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/asrConfig.cmake ${PROJECT_BINARY_DIR}/asrConfigVersion.cmake
  DESTINATION ${package})
