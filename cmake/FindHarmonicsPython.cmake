# Finds what the Python package is built with: the headers of Python and nanobind. Where both are there, the target
# harmonics_python_headers is made, and nanobind_add_module is known.
#
# nanobind comes from the package index: scripts/nanobind.sh puts a pinned one into .cache/nanobind of the checkout, pip
# puts one beside the interpreter that builds a wheel, and HARMONICS_NANOBIND names another folder that holds
# nanobind-config.cmake.
set(HARMONICS_NANOBIND "" CACHE PATH "The folder with nanobind-config.cmake")
# The system's own Python, which sees the system's torch, unless a wheel is built or somebody names another.
if(NOT SKBUILD AND NOT Python_EXECUTABLE AND NOT Python_ROOT_DIR)
  find_program(Python_EXECUTABLE python3 PATHS /usr/bin NO_DEFAULT_PATH)
endif()
find_package(Python 3.11 QUIET COMPONENTS Interpreter Development.Module)
if(Python_FOUND AND NOT TARGET harmonics_python_headers)
  set(nanobind_places ${HARMONICS_NANOBIND} ${PROJECT_SOURCE_DIR}/.cache/nanobind/nanobind/cmake)
  execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir OUTPUT_VARIABLE beside
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE missing)
  if(NOT missing)
    list(PREPEND nanobind_places ${beside})
  endif()
  find_package(nanobind CONFIG QUIET PATHS ${nanobind_places} NO_DEFAULT_PATH)
  if(nanobind_FOUND)
    add_library(harmonics_python_headers INTERFACE IMPORTED GLOBAL)
  endif()
endif()
