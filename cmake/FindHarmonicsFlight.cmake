# Finds Arrow for C++ in a pyarrow wheel: the targets harmonics_flight and, where the wheel has it, harmonics_parquet.
#
# Debian 12 has no Arrow. The wheel from PyPI carries the C++ headers and libraries; scripts/arrow.sh
# puts a pinned one into .cache/pyarrow of the checkout. HARMONICS_PYARROW names another folder that
# holds `include/arrow` and `libarrow_flight.so.*`.
set(HARMONICS_PYARROW "" CACHE PATH "The pyarrow package with Arrow's C++ headers and libraries")
set(flight_places ${HARMONICS_PYARROW} ${PROJECT_SOURCE_DIR}/.cache/pyarrow/pyarrow)

find_path(HARMONICS_FLIGHT_INCLUDE arrow/flight/server.h PATHS ${flight_places}
  PATH_SUFFIXES include NO_DEFAULT_PATH)
if(HARMONICS_FLIGHT_INCLUDE)
  get_filename_component(flight_folder ${HARMONICS_FLIGHT_INCLUDE} DIRECTORY)
  # The wheel has no links without a version.
  file(GLOB HARMONICS_ARROW_LIBRARY ${flight_folder}/libarrow.so.*)
  file(GLOB HARMONICS_FLIGHT_LIBRARY ${flight_folder}/libarrow_flight.so.*)
  file(GLOB HARMONICS_PARQUET_LIBRARY ${flight_folder}/libparquet.so.*)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(HarmonicsFlight REQUIRED_VARS HARMONICS_FLIGHT_INCLUDE
  HARMONICS_ARROW_LIBRARY HARMONICS_FLIGHT_LIBRARY)
if(HarmonicsFlight_FOUND AND NOT TARGET harmonics_flight)
  add_library(harmonics_arrow SHARED IMPORTED)
  set_target_properties(harmonics_arrow PROPERTIES IMPORTED_LOCATION ${HARMONICS_ARROW_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${HARMONICS_FLIGHT_INCLUDE})
  add_library(harmonics_flight SHARED IMPORTED)
  set_target_properties(harmonics_flight PROPERTIES IMPORTED_LOCATION ${HARMONICS_FLIGHT_LIBRARY}
    INTERFACE_LINK_LIBRARIES harmonics_arrow)
  if(HARMONICS_PARQUET_LIBRARY)
    add_library(harmonics_parquet SHARED IMPORTED)
    set_target_properties(harmonics_parquet PROPERTIES IMPORTED_LOCATION ${HARMONICS_PARQUET_LIBRARY}
      INTERFACE_LINK_LIBRARIES harmonics_arrow)
  endif()
endif()
mark_as_advanced(HARMONICS_FLIGHT_INCLUDE)
