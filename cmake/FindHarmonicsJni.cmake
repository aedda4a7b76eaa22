# Finds the headers of the Java native interface: the target harmonics_jni_headers. No library of Java
# is linked: the Java machine that loads ours is there already.
file(GLOB javas /usr/lib/jvm/*/include)
list(SORT javas)
find_path(HARMONICS_JNI_INCLUDE jni.h HINTS ENV JAVA_HOME PATH_SUFFIXES include PATHS ${javas})
find_path(HARMONICS_JNI_MD_INCLUDE jni_md.h HINTS ${HARMONICS_JNI_INCLUDE}/linux
  ${HARMONICS_JNI_INCLUDE}/darwin)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(HarmonicsJni
  REQUIRED_VARS HARMONICS_JNI_INCLUDE HARMONICS_JNI_MD_INCLUDE)
if(HarmonicsJni_FOUND AND NOT TARGET harmonics_jni_headers)
  add_library(harmonics_jni_headers INTERFACE IMPORTED)
  target_include_directories(harmonics_jni_headers INTERFACE ${HARMONICS_JNI_INCLUDE}
    ${HARMONICS_JNI_MD_INCLUDE})
endif()
mark_as_advanced(HARMONICS_JNI_INCLUDE HARMONICS_JNI_MD_INCLUDE)
