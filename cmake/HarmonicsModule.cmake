# harmonics_module(name DEPS … PACKAGES … LIBS … PUBLIC_LIBS … HEADERS … SOURCES … TESTS … [TORCH] [PART])
#
# Declares one module of the architecture: the static library harmonics::<name>, whose public headers
# lie in include/harmonics/<name>/. HARMONICS_MODULES (in src/CMakeLists.txt) is the order of the
# house: naming a module in DEPS that does not stand earlier in that list stops the configuration.
# A module sees only the include roots of its DEPS, so including a later module does not compile.
#   PACKAGES     what find_package must find for LIBS; the installed package looks for it again
#   LIBS         third-party libraries that only this module's .cc files may see
#   PUBLIC_LIBS  third-party libraries that its public headers need too
#   TORCH        compile with libtorch and the shared precompiled torch header
#   PART         an optional part of an earlier module, which has weak stand-ins for what it defines:
#                linking it takes it in, by the symbol harmonics_<name>_part
#   TESTS        one test program and one ctest entry "<name>.<file>" per *_test.cc
# With HARMONICS_FUZZ every *_fuzz.cc beside the sources becomes a fuzzer.
function(harmonics_module name)
  cmake_parse_arguments(ARG "TORCH;PART" "" "DEPS;PACKAGES;LIBS;PUBLIC_LIBS;HEADERS;SOURCES;TESTS" ${ARGN})
  harmonics_module_position(${name} own)
  foreach(dep IN LISTS ARG_DEPS)
    harmonics_module_position(${dep} theirs)
    if(NOT theirs LESS own)
      message(FATAL_ERROR "module '${name}' may not use '${dep}': in HARMONICS_MODULES "
                          "'${dep}' does not stand before '${name}' (see docs/ARCHITECTURE.md)")
    endif()
    if(NOT TARGET harmonics_${dep})
      message(FATAL_ERROR "module '${name}' uses '${dep}', which is not built here: declare it "
                          "earlier in src/CMakeLists.txt, or '${name}' only where it is built")
    endif()
  endforeach()

  foreach(package IN LISTS ARG_PACKAGES)
    find_package(${package} REQUIRED GLOBAL)
  endforeach()
  add_library(harmonics_${name} STATIC ${ARG_SOURCES})
  add_library(harmonics::${name} ALIAS harmonics_${name})
  set_target_properties(harmonics_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(harmonics_${name} PUBLIC
    $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(harmonics_${name} PUBLIC harmonics_${dep})
  endforeach()
  target_link_libraries(harmonics_${name} PUBLIC ${ARG_PUBLIC_LIBS} PRIVATE ${ARG_LIBS})
  target_compile_features(harmonics_${name} PUBLIC cxx_std_20)
  if(ARG_TORCH)
    harmonics_use_torch(harmonics_${name})
    list(APPEND ARG_PACKAGES Torch)
  endif()
  if(ARG_PART)
    target_link_options(harmonics_${name} INTERFACE LINKER:--undefined=harmonics_${name}_part)
  endif()
  # What the installed package looks for where this module is asked for.
  set_property(GLOBAL PROPERTY HARMONICS_DEPS_OF_${name} ${ARG_DEPS})
  set_property(GLOBAL PROPERTY HARMONICS_PACKAGES_OF_${name} ${ARG_PACKAGES})

  harmonics_check_headers(${name} ${ARG_HEADERS})
  if(ARG_TORCH AND TARGET harmonics_${name}_headers)
    # Without the precompiled header, which would hide what a header forgets to include.
    target_link_libraries(harmonics_${name}_headers PRIVATE harmonics_torch)
  endif()
  set_property(GLOBAL APPEND PROPERTY HARMONICS_BUILT_MODULES ${name})
  if(ARG_HEADERS)
    list(TRANSFORM ARG_HEADERS PREPEND include/harmonics/${name}/)
    install(FILES ${ARG_HEADERS} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/harmonics/${name})
  endif()
  if(HARMONICS_FUZZ)
    harmonics_fuzzers(${name})
  endif()
  if(HARMONICS_BUILD_TESTS)
    foreach(test IN LISTS ARG_TESTS)
      if(ARG_TORCH)
        harmonics_test(${name} ${test} TORCH)
      else()
        harmonics_test(${name} ${test})
      endif()
    endforeach()
  endif()
endfunction()

# Installs programs and shared libraries, which the target `installed` (HarmonicsInstall) builds.
function(harmonics_install_programs)
  install(TARGETS ${ARGN} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  set_property(GLOBAL APPEND PROPERTY HARMONICS_PROGRAMS ${ARGN})
endfunction()

# Position of a module in HARMONICS_MODULES; an unknown name stops the configuration.
function(harmonics_module_position name out)
  list(FIND HARMONICS_MODULES ${name} position)
  if(position EQUAL -1)
    message(FATAL_ERROR "'${name}' is not in HARMONICS_MODULES (src/CMakeLists.txt)")
  endif()
  set(${out} ${position} PARENT_SCOPE)
endfunction()

# Every public header must compile alone: a generated file per header includes nothing else.
function(harmonics_check_headers name)
  set(generated "")
  foreach(header IN LISTS ARGN)
    set(file ${CMAKE_CURRENT_BINARY_DIR}/header_check/${header}.cc)
    file(CONFIGURE OUTPUT ${file} CONTENT "#include <harmonics/${name}/${header}>\n")
    list(APPEND generated ${file})
  endforeach()
  if(generated AND HARMONICS_BUILD_TESTS)
    add_library(harmonics_${name}_headers OBJECT ${generated})
    target_link_libraries(harmonics_${name}_headers PRIVATE harmonics_${name})
  endif()
endfunction()

# One test program from one source file. Labels default to "unit".
#   harmonics_test(module file_test.cc [TORCH] [LABELS …] [LIBS …] [TIMEOUT seconds])
function(harmonics_test module source)
  cmake_parse_arguments(ARG "TORCH" "TIMEOUT" "LABELS;LIBS" ${ARGN})
  get_filename_component(stem ${source} NAME_WE)
  set(program ${module}_${stem})
  add_executable(${program} ${source})
  target_include_directories(${program} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${program} PRIVATE harmonics_${module} harmonics_base_testing
                        GTest::gtest_main GTest::gmock ${ARG_LIBS})
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(ARG_TORCH)
    harmonics_use_torch(${program})
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_test(NAME ${module}.${stem} COMMAND ${program})
  set_tests_properties(${module}.${stem} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT "HARMONICS_SOURCE_DIR=${PROJECT_SOURCE_DIR};HARMONICS_BINARY_DIR=${CMAKE_BINARY_DIR}")
endfunction()

# The test is a campaign of which ctest runs a slice: `make soak` runs all of it.
function(harmonics_soak test)
  get_test_property(${test} LABELS labels)
  set_tests_properties(${test} PROPERTIES LABELS "${labels};soak" TIMEOUT 3600)
endfunction()

# One libFuzzer program fuzz/<module>_<file> for every *_fuzz.cc in the current folder.
function(harmonics_fuzzers module)
  file(GLOB sources CONFIGURE_DEPENDS *_fuzz.cc)
  foreach(source IN LISTS sources)
    get_filename_component(stem ${source} NAME_WE)
    add_executable(${module}_${stem} ${source})
    target_include_directories(${module}_${stem} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    target_link_libraries(${module}_${stem} PRIVATE harmonics_${module})
    target_link_options(${module}_${stem} PRIVATE -fsanitize=fuzzer)
    set_target_properties(${module}_${stem} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  endforeach()
endfunction()

# Makes the one precompiled torch header that all targets share: twenty seconds saved per file.
function(harmonics_precompile_torch)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/torch_pch.cc CONTENT "")
  add_library(harmonics_torch_pch OBJECT ${CMAKE_CURRENT_BINARY_DIR}/torch_pch.cc)
  target_link_libraries(harmonics_torch_pch PRIVATE harmonics_torch)
  target_precompile_headers(harmonics_torch_pch PRIVATE <torch/torch.h>)
endfunction()

# Links libtorch into a target and lets it reuse the precompiled torch header.
function(harmonics_use_torch target)
  target_link_libraries(${target} PRIVATE harmonics_torch)
  if(TARGET harmonics_torch_pch)
    target_precompile_headers(${target} REUSE_FROM harmonics_torch_pch)
  endif()
endfunction()
