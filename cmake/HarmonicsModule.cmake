# harmonics_module(name DEPS … PACKAGES … LIBS … PUBLIC_LIBS … HEADERS … SOURCES … TESTS … [TORCH] [PART] [ROOMS]
#                  [TESTS_ONLY] [ROOM_OF module])
#
# Declares one module of the architecture: the static library harmonics::<name>, whose public headers
# lie in include/harmonics/<name>/. HARMONICS_MODULES (in src/CMakeLists.txt) is the order of the
# house: naming a module in DEPS that does not stand earlier in that list stops the configuration.
# A module sees only the include roots of its DEPS, so including a later module does not compile.
#   PACKAGES     what find_package must find for LIBS; the installed package looks for it again
#   LIBS         third-party libraries that only this module's .cc files may see
#   PUBLIC_LIBS  third-party libraries that its public headers need too
#   TORCH        compile with libtorch
#   PART         an optional part of an earlier module, which has weak stand-ins for what it defines:
#                linking it takes it in, by the symbol harmonics_<name>_part
#   ROOMS        its sources lie in folders of its folder too: they see its private headers as "header.h" and
#                those of another room as "room/header.h"
#   ROOM_OF      this folder is such a room of that module, with a target of its own
#   TESTS_ONLY   programs of ours never link it: neither installed nor part of harmonics::harmonics
#   TESTS        one test program and one ctest entry "<name>.<file>" per *_test.cc
# With HARMONICS_FUZZ every *_fuzz.cc among the sources becomes a fuzzer.
function(harmonics_module name)
  cmake_parse_arguments(ARG "TORCH;PART;ROOMS;TESTS_ONLY" "ROOM_OF" "DEPS;PACKAGES;LIBS;PUBLIC_LIBS;HEADERS;SOURCES;TESTS" ${ARGN})
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
  if(ARG_ROOMS)
    set_property(GLOBAL PROPERTY HARMONICS_FOLDER_OF_${name} ${CMAKE_CURRENT_SOURCE_DIR})
    target_include_directories(harmonics_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  endif()
  if(ARG_ROOM_OF)
    get_property(folder GLOBAL PROPERTY HARMONICS_FOLDER_OF_${ARG_ROOM_OF})
    set_property(GLOBAL PROPERTY HARMONICS_FOLDER_OF_${name} ${folder})  # for its tests
    target_include_directories(harmonics_${name} PRIVATE ${folder})
  endif()
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(harmonics_${name} PUBLIC harmonics_${dep})
  endforeach()
  target_link_libraries(harmonics_${name} PUBLIC ${ARG_PUBLIC_LIBS} PRIVATE ${ARG_LIBS})
  target_compile_features(harmonics_${name} PUBLIC cxx_std_20)
  if(ARG_TORCH)
    target_link_libraries(harmonics_${name} PRIVATE harmonics_torch)
    list(APPEND ARG_PACKAGES Torch)
    harmonics_precompile(harmonics_${name} torch_modules HEADERS <ATen/ATen.h> LIBS harmonics_torch)
  else()  # libtorch may bring an fmt of its own
    harmonics_precompile(harmonics_${name} modules HEADERS <fmt/format.h>)
  endif()
  if(ARG_PART)
    target_link_options(harmonics_${name} INTERFACE LINKER:--undefined=harmonics_${name}_part)
  endif()
  # What the installed package looks for where this module is asked for.
  set_property(GLOBAL PROPERTY HARMONICS_DEPS_OF_${name} ${ARG_DEPS})
  set_property(GLOBAL PROPERTY HARMONICS_PACKAGES_OF_${name} ${ARG_PACKAGES})

  harmonics_check_headers(${name} ${ARG_HEADERS})
  if(NOT ARG_TESTS_ONLY)
    set_property(GLOBAL APPEND PROPERTY HARMONICS_BUILT_MODULES ${name})
  endif()
  if(ARG_HEADERS)
    list(TRANSFORM ARG_HEADERS PREPEND include/harmonics/${name}/)
    install(FILES ${ARG_HEADERS} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/harmonics/${name})
  endif()
  if(HARMONICS_FUZZ AND NOT ARG_ROOM_OF)
    harmonics_fuzzers(${name})
  endif()
  if(HARMONICS_BUILD_TESTS)
    foreach(test IN LISTS ARG_TESTS)
      if(ARG_TORCH)
        harmonics_test(${name} ${test} LIBS harmonics_torch)
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
  if(SKBUILD)  # a wheel puts programs beside Python's own
    install(TARGETS ${ARGN} RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT python OPTIONAL)
  endif()
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

# Every public header must compile alone: a generated file per header includes nothing else. All of them
# together make the target `lonely_headers`, which `make lint` builds; an ordinary build compiles them in
# one unit, the umbrella header.
function(harmonics_check_headers name)
  set(generated "")
  foreach(header IN LISTS ARGN)
    set(file ${CMAKE_CURRENT_BINARY_DIR}/header_check/${header}.cc)
    file(CONFIGURE OUTPUT ${file} CONTENT "#include <harmonics/${name}/${header}>\n")
    list(APPEND generated ${file})
  endforeach()
  if(NOT generated)
    return()
  endif()
  add_library(harmonics_${name}_headers OBJECT EXCLUDE_FROM_ALL ${generated})
  set_target_properties(harmonics_${name}_headers PROPERTIES UNITY_BUILD OFF)
  target_link_libraries(harmonics_${name}_headers PRIVATE harmonics_${name}
    $<TARGET_NAME_IF_EXISTS:harmonics_torch>)
  if(NOT TARGET lonely_headers)
    add_custom_target(lonely_headers)
  endif()
  add_dependencies(lonely_headers harmonics_${name}_headers)
endfunction()

# One test program from one source file. Labels default to "unit".
#   harmonics_test(module file_test.cc [LABELS …] [LIBS …] [TIMEOUT seconds])
function(harmonics_test module source)
  cmake_parse_arguments(ARG "" "TIMEOUT" "LABELS;LIBS" ${ARGN})
  get_filename_component(stem ${source} NAME_WE)
  set(program ${module}_${stem})
  add_executable(${program} ${source})
  get_property(folder GLOBAL PROPERTY HARMONICS_FOLDER_OF_${module})  # where the module has rooms
  target_include_directories(${program} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${folder})
  target_link_libraries(${program} PRIVATE harmonics_${module} harmonics_base_testing
                        GTest::gtest_main GTest::gmock ${ARG_LIBS})
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  harmonics_compile_as_test(${program})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_test(NAME ${module}.${stem} COMMAND ${program})
  set_tests_properties(${module}.${stem} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT "HARMONICS_SOURCE_DIR=${PROJECT_SOURCE_DIR};HARMONICS_BINARY_DIR=${CMAKE_BINARY_DIR};HARMONICS_BUGS=abort")
endfunction()

# The test is a campaign of which ctest runs a slice: `make soak` runs all of it.
function(harmonics_soak test)
  get_test_property(${test} LABELS labels)
  set_tests_properties(${test} PROPERTIES LABELS "${labels};soak" TIMEOUT 3600)
endfunction()

# A test of minutes begins before others, so that a core does not wait for it at the end.
function(harmonics_first test)
  set_tests_properties(${test} PROPERTIES COST 200)
endfunction()

# One libFuzzer program fuzz/<module>_<file>, of the entry and the SOURCES that it enters.
function(harmonics_fuzzer module source)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  get_filename_component(stem ${source} NAME_WE)
  set(program ${module}_${stem})
  add_executable(${program} ${source} ${ARG_SOURCES})
  target_include_directories(${program} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} include)
  target_link_libraries(${program} PRIVATE ${ARG_LIBS} harmonics_base harmonics_base_testing)
  target_link_options(${program} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
endfunction()

# A fuzzer of the whole module for every *_fuzz.cc in the current folder and its rooms.
function(harmonics_fuzzers module)
  file(GLOB sources CONFIGURE_DEPENDS *_fuzz.cc */*_fuzz.cc)
  foreach(source IN LISTS sources)
    harmonics_fuzzer(${module} ${source} LIBS harmonics_${module})
  endforeach()
endfunction()

# Lets a target reuse a precompiled header, which is made once for all that name the same KIND: "modules",
# "programs" or "tests", since g++ takes it only where it is asked for the same optimisation, and one kind more of
# modules and tests that include libtorch, whose headers alone take 13 seconds to read. OPTIONS are the
# compile options of that kind, HEADERS what it holds besides the standard library, LIBS whose headers these are.
function(harmonics_precompile target kind)
  cmake_parse_arguments(ARG "" "" "OPTIONS;HEADERS;LIBS" ${ARGN})
  set(holder harmonics_pch_${kind})
  if(NOT TARGET ${holder})
    set(file ${PROJECT_BINARY_DIR}/pch_${kind}.cc)
    file(CONFIGURE OUTPUT ${file} CONTENT "")
    find_package(fmt REQUIRED GLOBAL)
    find_package(Threads REQUIRED GLOBAL)
    add_library(${holder} OBJECT EXCLUDE_FROM_ALL ${file})
    target_compile_options(${holder} PRIVATE ${ARG_OPTIONS})
    target_link_libraries(${holder} PRIVATE fmt::fmt Threads::Threads ${ARG_LIBS})
    target_precompile_headers(${holder} PRIVATE ${ARG_HEADERS} <algorithm> <array> <chrono>
      <cstdint> <deque> <filesystem> <functional> <map> <memory> <mutex> <optional> <set> <span> <sstream>
      <string> <thread> <utility> <variant> <vector>)
  endif()
  target_compile_options(${target} PRIVATE ${ARG_OPTIONS})
  target_precompile_headers(${target} REUSE_FROM ${holder})
endfunction()

# Tests are compiled to be built quickly, since each of them runs once: less optimised than what they test.
function(harmonics_compile_as_test program)
  get_target_property(sources ${program} SOURCES)
  list(GET sources 0 source)
  file(STRINGS ${source} torch REGEX "#include <(ATen/|torch/|harmonics/tensor/torch\\.h|harmonics/runtime/torch_layer\\.h)")
  if(torch)
    harmonics_precompile(${program} torch_tests OPTIONS $<$<CONFIG:Release>:-O1>
      HEADERS <gmock/gmock.h> <gtest/gtest.h> <ATen/ATen.h> LIBS GTest::gtest GTest::gmock harmonics_torch)
  else()
    harmonics_precompile(${program} tests OPTIONS $<$<CONFIG:Release>:-O1>
      HEADERS <gmock/gmock.h> <gtest/gtest.h> LIBS GTest::gtest GTest::gmock)
  endif()
endfunction()

# So are programs: they parse, call and print; what takes time stands in the modules.
function(harmonics_compile_as_program program)
  harmonics_precompile(${program} programs OPTIONS $<$<CONFIG:Release>:-O1> HEADERS <fmt/format.h>)
endfunction()
