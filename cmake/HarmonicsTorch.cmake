# Finds libtorch and gives it one target, harmonics_torch: Debian's, one that CMAKE_PREFIX_PATH names, or else that of
# a PyTorch which python3 can import. A wheel takes that of the Python which builds it first: they will share processes.
# Sets HARMONICS_HAS_TORCH.
set(HARMONICS_HAS_TORCH OFF)

macro(harmonics_find_torch_of python)
  execute_process(COMMAND ${python} -c "import torch; print(torch.utils.cmake_prefix_path)"
    OUTPUT_VARIABLE wheel OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE missing)
  if(NOT missing)
    find_package(Torch QUIET PATHS ${wheel} NO_DEFAULT_PATH)
  endif()
endmacro()

if(HARMONICS_WITH_TORCH)
  if(SKBUILD)
    harmonics_find_torch_of(${Python_EXECUTABLE})
  endif()
  if(NOT Torch_FOUND)
    find_package(Torch QUIET)
  endif()
  if(NOT Torch_FOUND)
    harmonics_find_torch_of(python3)
  endif()
  if(NOT Torch_FOUND AND NOT HARMONICS_WITH_TORCH STREQUAL "AUTO")
    message(FATAL_ERROR "HARMONICS_WITH_TORCH is ${HARMONICS_WITH_TORCH}, but there is no libtorch: install Debian's "
      "libtorch-dev, or PyTorch for python3, or name the folder that holds TorchConfig.cmake in CMAKE_PREFIX_PATH")
  endif()
endif()

if(HARMONICS_WITH_TORCH AND Torch_FOUND)
  set(HARMONICS_HAS_TORCH ON)
  message(STATUS "harmonics: libtorch of ${Torch_DIR}")
  if(TORCH_CXX_FLAGS MATCHES "_GLIBCXX_USE_CXX11_ABI=0")
    message(FATAL_ERROR "This libtorch (${TORCH_INSTALL_PREFIX}) was built with the old C++ ABI, "
      "which the other libraries do not share: take the cxx11-ABI download of libtorch instead.")
  endif()
  # The one ABI of all that is built here need not be said: a definition more and no precompiled header fits.
  get_target_property(options torch INTERFACE_COMPILE_OPTIONS)
  if(options)
    list(REMOVE_ITEM options -D_GLIBCXX_USE_CXX11_ABI=1)
    set_target_properties(torch PROPERTIES INTERFACE_COMPILE_OPTIONS "${options}")
  endif()
  add_library(harmonics_torch INTERFACE)
  # PyTorch's wheels export parts of an older C++ library (std::filesystem::remove_all, which then calls
  # what is not there): the system's own must be looked at first.
  target_link_libraries(harmonics_torch INTERFACE stdc++ ${TORCH_LIBRARIES})
  target_include_directories(harmonics_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
  # libtorch 2.x brings fmt headers of its own, which hide the system's: code that sees them must not
  # expect the system's library to fit. No fmt type crosses between modules.
  find_path(HARMONICS_TORCH_FMT fmt/format-inl.h PATHS ${TORCH_INCLUDE_DIRS} NO_DEFAULT_PATH)
  if(HARMONICS_TORCH_FMT AND NOT HARMONICS_TORCH_FMT IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
    target_compile_definitions(harmonics_torch INTERFACE FMT_HEADER_ONLY)
  endif()
else()
  message(STATUS "harmonics: built without libtorch (HARMONICS_WITH_TORCH=${HARMONICS_WITH_TORCH}):"
    " no tensor_torch, runtime, place, schedule, proven and harmonics-torch")
endif()
