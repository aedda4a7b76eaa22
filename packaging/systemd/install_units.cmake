# Run by `cmake --install`: the units call the programs where this installation puts them, whatever
# prefix it was given. Needs source, bindir and datadir as the installation knows them.
cmake_path(ABSOLUTE_PATH bindir BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}" NORMALIZE)
cmake_path(ABSOLUTE_PATH datadir BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}" NORMALIZE)
set(place "$ENV{DESTDIR}${datadir}/harmonics")
foreach(unit server worker)
  configure_file(${source}/harmonics-${unit}.service.in
                 ${place}/systemd/harmonics-${unit}.service @ONLY)
  message(STATUS "Installing: ${place}/systemd/harmonics-${unit}.service")
endforeach()
set(override systemd/harmonics-worker.service.d/task-user.conf)
configure_file(${source}/harmonics-worker-task-user.conf.in ${place}/${override} @ONLY)
message(STATUS "Installing: ${place}/${override}")
# This one sees to DESTDIR itself.
foreach(kind sysusers tmpfiles)
  file(INSTALL ${source}/harmonics.${kind}.conf DESTINATION ${datadir}/harmonics/${kind}.d RENAME harmonics.conf)
endforeach()
