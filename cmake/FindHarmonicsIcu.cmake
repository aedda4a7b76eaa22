# Finds ICU's Unicode and regular expressions: the target harmonics_icu. CMake's own FindICU defines no target
# unless it is told components, which find_dependency cannot hand on from a list of names.
find_path(HARMONICS_ICU_INCLUDE unicode/uregex.h)
find_library(HARMONICS_ICU_UC icuuc)
find_library(HARMONICS_ICU_I18N icui18n)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(HarmonicsIcu
  REQUIRED_VARS HARMONICS_ICU_INCLUDE HARMONICS_ICU_UC HARMONICS_ICU_I18N)
if(HarmonicsIcu_FOUND AND NOT TARGET harmonics_icu)
  add_library(harmonics_icu_uc UNKNOWN IMPORTED)
  set_target_properties(harmonics_icu_uc PROPERTIES IMPORTED_LOCATION ${HARMONICS_ICU_UC})
  add_library(harmonics_icu UNKNOWN IMPORTED)
  set_target_properties(harmonics_icu PROPERTIES IMPORTED_LOCATION ${HARMONICS_ICU_I18N}
    INTERFACE_INCLUDE_DIRECTORIES ${HARMONICS_ICU_INCLUDE} INTERFACE_LINK_LIBRARIES harmonics_icu_uc)
endif()
mark_as_advanced(HARMONICS_ICU_INCLUDE HARMONICS_ICU_UC HARMONICS_ICU_I18N)
