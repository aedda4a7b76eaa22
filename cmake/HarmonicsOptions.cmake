# Compiler settings, build options and the third-party packages that every part shares.
option(HARMONICS_BUILD_TESTS "Build the tests and benchmarks" ON)
option(HARMONICS_BUILD_EXAMPLES "Build the example programs" ON)
option(HARMONICS_WERROR "Treat warnings as errors" OFF)
set(HARMONICS_SANITIZE "" CACHE STRING "Sanitizers to compile with, for instance address,undefined")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# Programs land in the build folder itself, where the guides look for them.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

add_compile_options(-Wall -Wextra)
if(HARMONICS_WERROR)
  add_compile_options(-Werror)
endif()
if(HARMONICS_SANITIZE)
  add_compile_options(-fsanitize=${HARMONICS_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${HARMONICS_SANITIZE})
endif()

find_program(HARMONICS_CCACHE ccache)
if(HARMONICS_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The sloppiness values are what ccache needs to reuse objects built with a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${HARMONICS_CCACHE})
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)

# libtorch serves tensor_torch, runtime and dispatch. Debian keeps its own headers; a libtorch 2.x
# is found through CMAKE_PREFIX_PATH.
find_package(Torch REQUIRED)
add_library(harmonics_torch INTERFACE)
target_link_libraries(harmonics_torch INTERFACE ${TORCH_LIBRARIES})
target_include_directories(harmonics_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
separate_arguments(harmonics_torch_flags UNIX_COMMAND "${TORCH_CXX_FLAGS}")
target_compile_options(harmonics_torch INTERFACE ${harmonics_torch_flags})

if(HARMONICS_BUILD_TESTS)
  find_package(GTest REQUIRED)
  find_package(benchmark)
  enable_testing()
endif()
