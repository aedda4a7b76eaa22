# Optional parts. HARMONICS_WITH_<PART> = AUTO builds a part where its libraries are found, ON insists,
# OFF leaves it out. Each part sets HARMONICS_HAS_<PART>; `harmonics doctor` lists them all.

# harmonics_part(NAME "what it is for" TARGETS target … PACKAGES package …)
# Looks for the packages and expects them to define the targets.
macro(harmonics_part part what)
  cmake_parse_arguments(PART "" "" "TARGETS;PACKAGES" ${ARGN})
  set(HARMONICS_WITH_${part} AUTO CACHE STRING "${what} (AUTO, ON or OFF)")
  set_property(CACHE HARMONICS_WITH_${part} PROPERTY STRINGS AUTO ON OFF)
  set(HARMONICS_HAS_${part} OFF)
  set(part_missing "")
  if(HARMONICS_WITH_${part})
    foreach(package IN LISTS PART_PACKAGES)
      find_package(${package} QUIET)
    endforeach()
    foreach(target IN LISTS PART_TARGETS)
      if(NOT TARGET ${target})
        list(APPEND part_missing ${target})
      endif()
    endforeach()
    if(NOT part_missing)
      set(HARMONICS_HAS_${part} ON)
    elseif(NOT HARMONICS_WITH_${part} STREQUAL "AUTO")
      message(FATAL_ERROR "HARMONICS_WITH_${part}=ON (${what}): not found: ${part_missing}; "
        "scripts/setup.sh installs what is needed")
    endif()
  endif()
  if(HARMONICS_HAS_${part})
    set(part_note "${what}")
  elseif(part_missing)
    set(part_note "left out, not found: ${part_missing}")
  else()
    set(part_note "left out when this was built (HARMONICS_WITH_${part}=OFF)")
  endif()
  if(NOT HARMONICS_HAS_${part})
    message(STATUS "harmonics: ${part} ${part_note}")
  endif()
  # A row of the doctor's table, as C++.
  string(TOLOWER ${part} part_name)
  string(REPLACE ";" " " part_note "${part_note}")
  string(COMPARE EQUAL "${HARMONICS_HAS_${part}}" ON part_built)
  set(part_words false true)
  list(GET part_words ${part_built} part_built)
  set_property(GLOBAL APPEND_STRING PROPERTY HARMONICS_PART_ROWS
    "    {\"${part_name}\", ${part_built}, \"${part_note}\"},\n")
endmacro()

# Writes the body of apps/harmonics/optional_parts.h.
function(harmonics_write_parts file)
  get_property(rows GLOBAL PROPERTY HARMONICS_PART_ROWS)
  file(CONFIGURE OUTPUT ${file} @ONLY CONTENT "#include \"optional_parts.h\"

namespace harmonics::inline in_front {

std::span<const OptionalPart> optional_parts() {
  static constexpr OptionalPart kParts[] = {
@rows@  };
  return kParts;
}

}  // namespace harmonics::inline in_front
")
endfunction()

harmonics_part(GRPC "gRPC transport, cluster" PACKAGES Protobuf gRPC
  TARGETS gRPC::grpc++ protobuf::libprotobuf gRPC::grpc_cpp_plugin)
harmonics_part(FLIGHT "Arrow Flight transport" PACKAGES HarmonicsFlight
  TARGETS harmonics_flight)
harmonics_part(ARROW "Parquet and Arrow files" PACKAGES HarmonicsFlight TARGETS harmonics_parquet)
harmonics_part(MPI "dispatch over MPI ranks" PACKAGES MPI TARGETS MPI::MPI_CXX)
harmonics_part(OPENCL "OpenCL (FPGA) backend" PACKAGES OpenCL CLBlast TARGETS OpenCL::OpenCL clblast)
harmonics_part(STORE "SQLite and PostgreSQL" PACKAGES SQLite3 PostgreSQL
  TARGETS SQLite::SQLite3 PostgreSQL::PostgreSQL)
harmonics_part(ZK "zero-knowledge proofs" PACKAGES Sodium TARGETS sodium::sodium)
harmonics_part(TEXT "tokenizers" PACKAGES HarmonicsIcu TARGETS harmonics_icu)
harmonics_part(IMAGES "PNG and JPEG pictures" PACKAGES PNG JPEG TARGETS PNG::PNG JPEG::JPEG)
harmonics_part(JVM "Java and Spark" PACKAGES HarmonicsJni TARGETS harmonics_jni_headers)
harmonics_part(PYTHON "Python" PACKAGES HarmonicsPython TARGETS harmonics_python_headers)
