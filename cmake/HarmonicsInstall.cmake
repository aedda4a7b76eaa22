# harmonics::harmonics (all modules behind <harmonics/harmonics.h>) and the installed package.
include(CMakePackageConfigHelpers)

# The umbrella target over all modules that were built. Call after add_subdirectory(src).
function(harmonics_umbrella)
  get_property(modules GLOBAL PROPERTY HARMONICS_BUILT_MODULES)
  add_library(harmonics_harmonics INTERFACE)
  add_library(harmonics::harmonics ALIAS harmonics_harmonics)
  set_target_properties(harmonics_harmonics PROPERTIES EXPORT_NAME harmonics)
  target_include_directories(harmonics_harmonics INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  list(TRANSFORM modules PREPEND harmonics_)
  target_link_libraries(harmonics_harmonics INTERFACE ${modules})
  if(HARMONICS_BUILD_TESTS)
    set(file ${PROJECT_BINARY_DIR}/header_check/harmonics.h.cc)
    file(CONFIGURE OUTPUT ${file} CONTENT "#include <harmonics/harmonics.h>\n")
    add_library(harmonics_umbrella_header OBJECT ${file})
    target_link_libraries(harmonics_umbrella_header PRIVATE harmonics_harmonics)
  endif()
endfunction()

# Installs libraries, headers and the CMake package (programs install themselves). Call last.
function(harmonics_install)
  get_property(modules GLOBAL PROPERTY HARMONICS_BUILT_MODULES)
  list(TRANSFORM modules PREPEND harmonics_)
  if(HARMONICS_HAS_TORCH)
    set_target_properties(harmonics_torch PROPERTIES EXPORT_NAME torch)
    list(APPEND modules harmonics_torch)
  endif()
  install(TARGETS ${modules} harmonics_harmonics EXPORT harmonics)
  install(FILES ${PROJECT_SOURCE_DIR}/include/harmonics/harmonics.h
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/harmonics)

  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/harmonics)
  # Debian has no Arrow, so the installed package brings what it needs of the wheel along.
  set(HARMONICS_ARROW_FOLDER "")
  if(HARMONICS_HAS_FLIGHT)
    set(HARMONICS_ARROW_FOLDER ${CMAKE_INSTALL_LIBDIR}/harmonics/arrow)
    install(FILES ${HARMONICS_ARROW_LIBRARY} ${HARMONICS_FLIGHT_LIBRARY}
            DESTINATION ${HARMONICS_ARROW_FOLDER})
    install(DIRECTORY ${HARMONICS_FLIGHT_INCLUDE}/arrow DESTINATION ${HARMONICS_ARROW_FOLDER}/include)
  endif()
  get_property(HARMONICS_PACKAGES GLOBAL PROPERTY HARMONICS_PACKAGES)
  install(EXPORT harmonics NAMESPACE harmonics:: FILE harmonics-targets.cmake
          DESTINATION ${package})
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/harmonics-config.cmake.in
    ${PROJECT_BINARY_DIR}/harmonics-config.cmake INSTALL_DESTINATION ${package})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/harmonics-config-version.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/harmonics-config.cmake
                ${PROJECT_BINARY_DIR}/harmonics-config-version.cmake
                ${PROJECT_SOURCE_DIR}/cmake/FindSodium.cmake
                ${PROJECT_SOURCE_DIR}/cmake/FindHarmonicsFlight.cmake DESTINATION ${package})
endfunction()
