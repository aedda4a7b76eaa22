# Compiler settings, build options, and the packages that tests and torch need. Other third-party
# packages are named by the module that uses them (harmonics_module … PACKAGES).
include(GNUInstallDirs)

option(HARMONICS_BUILD_TESTS "Build the tests and benchmarks" ON)
option(HARMONICS_BUILD_EXAMPLES "Build the example programs" ON)
option(HARMONICS_UNITY "Compile several files of a target as one unit: less than half of the time" ON)
option(HARMONICS_WERROR "Treat warnings as errors" OFF)
option(HARMONICS_FUZZ "Build the fuzzers (needs clang)" OFF)
set(HARMONICS_SANITIZE "" CACHE STRING "Sanitizers to compile with, for instance address,undefined")

# Optional parts. AUTO builds a part where its library is found, ON insists, OFF leaves it out.
set(HARMONICS_WITH_TORCH ON CACHE STRING
    "libtorch: tensor_torch, runtime, place, schedule, proven, harmonics-torch (AUTO, ON or OFF)")
set_property(CACHE HARMONICS_WITH_TORCH PROPERTY STRINGS AUTO ON OFF)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# Programs land in the build folder itself, where the guides look for them.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

# One flag for libraries and programs alike (instead of -fPIC for one and -fPIE for the other), since
# a precompiled header serves only files that are compiled with the very same flags; so with -pthread, which
# gRPC brings along.
add_compile_options(-pthread -fPIC -fno-semantic-interposition -Wall -Wextra)
if(HARMONICS_UNITY)
  set(CMAKE_UNITY_BUILD ON)
  # Large enough that headers are read seldom, small enough that one edited file is built in seconds.
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 8)
  # A type of a file's own in a type of its header is no mistake; g++ takes the included .cc for a header.
  add_compile_options(-Wno-subobject-linkage)
endif()
if(HARMONICS_WERROR)
  # g++ 12 raises these for correct uses of the standard library once it has inlined them.
  add_compile_options(-Werror -Wno-error=array-bounds -Wno-error=maybe-uninitialized
    -Wno-error=restrict -Wno-error=stringop-overflow -Wno-error=stringop-overread)
endif()
if(HARMONICS_SANITIZE)
  add_compile_options(-fsanitize=${HARMONICS_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${HARMONICS_SANITIZE})
endif()
# Some 260 programs are linked: gold, which is part of binutils, takes a fifth of the time of the default. What is
# linked as a whole or instrumented stays with the linker that its compiler expects.
if(NOT HARMONICS_SANITIZE AND NOT HARMONICS_FUZZ AND NOT CMAKE_CXX_FLAGS MATCHES "-flto")
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=gold HARMONICS_HAS_GOLD)
  if(HARMONICS_HAS_GOLD)
    add_link_options(-fuse-ld=gold)
  endif()
endif()
if(HARMONICS_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "HARMONICS_FUZZ needs clang: use the preset 'fuzz' (make fuzz)")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_program(HARMONICS_CCACHE ccache)
if(HARMONICS_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The sloppiness values are what ccache needs to reuse objects built with a precompiled header; the
  # base folder lets a second checkout use the objects of the first.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${HARMONICS_CCACHE})
endif()

if(HARMONICS_BUILD_TESTS)
  find_package(GTest REQUIRED)
  find_package(benchmark)
  enable_testing()
endif()

include(HarmonicsTorch)
