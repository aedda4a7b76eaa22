# harmonics::harmonics (all modules behind <harmonics/harmonics.h>) and the installed package.
include(CMakePackageConfigHelpers)

# An installed program finds the libraries that are installed beside it, wherever the prefix lies, and
# those that it was linked with outside this tree (a libtorch of one's own).
set(HARMONICS_ARROW_FOLDER ${CMAKE_INSTALL_LIBDIR}/harmonics/arrow)
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
if(HARMONICS_HAS_FLIGHT OR HARMONICS_HAS_ARROW)
  file(RELATIVE_PATH arrow_from_programs /${CMAKE_INSTALL_BINDIR} /${HARMONICS_ARROW_FOLDER})
  file(RELATIVE_PATH arrow_from_libraries /${CMAKE_INSTALL_LIBDIR} /${HARMONICS_ARROW_FOLDER})
  set(CMAKE_INSTALL_RPATH $ORIGIN/${arrow_from_programs} $ORIGIN/${arrow_from_libraries})
endif()

# The umbrella target over all modules that were built; harmonics-config.cmake makes the installed one.
# Call after add_subdirectory(src).
function(harmonics_umbrella)
  get_property(modules GLOBAL PROPERTY HARMONICS_BUILT_MODULES)
  add_library(harmonics_harmonics INTERFACE)
  add_library(harmonics::harmonics ALIAS harmonics_harmonics)
  target_include_directories(harmonics_harmonics INTERFACE ${PROJECT_SOURCE_DIR}/include)
  list(TRANSFORM modules PREPEND harmonics_)
  target_link_libraries(harmonics_harmonics INTERFACE ${modules})
  if(HARMONICS_BUILD_TESTS)
    set(file ${PROJECT_BINARY_DIR}/header_check/harmonics.h.cc)
    file(CONFIGURE OUTPUT ${file} CONTENT "#include <harmonics/harmonics.h>\n")
    add_library(harmonics_umbrella_header OBJECT ${file})
    target_link_libraries(harmonics_umbrella_header PRIVATE harmonics_harmonics)
  endif()
endfunction()

# What of the installed package each module needs: `harmonics_<module>_deps` and `_packages`, as text of
# harmonics-config.cmake.
function(harmonics_module_needs out)
  set(text "")
  foreach(module IN LISTS ARGN)
    get_property(deps GLOBAL PROPERTY HARMONICS_DEPS_OF_${module})
    get_property(packages GLOBAL PROPERTY HARMONICS_PACKAGES_OF_${module})
    string(APPEND text "set(harmonics_${module}_deps ${deps})\n"
                       "set(harmonics_${module}_packages ${packages})\n")
  endforeach()
  string(REPLACE ";" " " text "${text}")
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

# Installs libraries, headers and the CMake package (programs install themselves), and makes the target
# `installed`, which builds what an installation copies. Call last.
function(harmonics_install)
  get_property(HARMONICS_INSTALLED_MODULES GLOBAL PROPERTY HARMONICS_BUILT_MODULES)
  harmonics_module_needs(HARMONICS_MODULE_NEEDS ${HARMONICS_INSTALLED_MODULES})
  list(TRANSFORM HARMONICS_INSTALLED_MODULES PREPEND harmonics_ OUTPUT_VARIABLE targets)
  get_property(programs GLOBAL PROPERTY HARMONICS_PROGRAMS)
  add_custom_target(installed)
  add_dependencies(installed ${targets} ${programs})
  if(HARMONICS_HAS_TORCH)
    set_target_properties(harmonics_torch PROPERTIES EXPORT_NAME torch)
    list(APPEND targets harmonics_torch)
  endif()
  install(TARGETS ${targets} EXPORT harmonics)
  install(FILES ${PROJECT_SOURCE_DIR}/include/harmonics/harmonics.h
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/harmonics)
  # The pages lie as they do in the tree, so that what they link to is there.
  foreach(page LICENSE README.md README_Profiler.md CHANGELOG.md CONTRIBUTING.md)
    install(FILES ${PROJECT_SOURCE_DIR}/${page} DESTINATION ${CMAKE_INSTALL_DOCDIR})
  endforeach()
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR}
          PATTERN Doxyfile EXCLUDE)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/bench/results DESTINATION ${CMAKE_INSTALL_DOCDIR}/bench)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DATADIR}/harmonics)
  file(RELATIVE_PATH examples /${CMAKE_INSTALL_DOCDIR} /${CMAKE_INSTALL_DATADIR}/harmonics/examples)
  install(CODE "file(CREATE_LINK ${examples} \
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DOCDIR}/examples\" SYMBOLIC)")

  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/harmonics)
  # Debian has no Arrow, so the installed package brings what it needs of the wheel along.
  if(HARMONICS_HAS_FLIGHT OR HARMONICS_HAS_ARROW)
    install(FILES ${HARMONICS_ARROW_LIBRARY} ${HARMONICS_FLIGHT_LIBRARY} ${HARMONICS_PARQUET_LIBRARY}
            DESTINATION ${HARMONICS_ARROW_FOLDER})
    install(DIRECTORY ${HARMONICS_FLIGHT_INCLUDE}/arrow DESTINATION ${HARMONICS_ARROW_FOLDER}/include)
  endif()
  install(EXPORT harmonics NAMESPACE harmonics:: FILE harmonics-targets.cmake
          DESTINATION ${package})
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/harmonics-config.cmake.in
    ${PROJECT_BINARY_DIR}/harmonics-config.cmake INSTALL_DESTINATION ${package})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/harmonics-config-version.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/harmonics-config.cmake
                ${PROJECT_BINARY_DIR}/harmonics-config-version.cmake
                ${PROJECT_SOURCE_DIR}/cmake/FindSodium.cmake
                ${PROJECT_SOURCE_DIR}/cmake/FindHarmonicsFlight.cmake
                ${PROJECT_SOURCE_DIR}/cmake/FindHarmonicsIcu.cmake DESTINATION ${package})
endfunction()
