# What `cmake --install` copies, and how other projects find it: find_package(rotary CONFIG) and pkg-config. Both can be moved
# with their folder.
if(NOT ROTARY_INSTALL)
  return()
endif()
include(CMakePackageConfigHelpers)

install(TARGETS rotary EXPORT rotaryTargets)
install(DIRECTORY include/rotary TYPE INCLUDE FILES_MATCHING PATTERN "*.hpp")
install(FILES ${PROJECT_BINARY_DIR}/include/rotary/version.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rotary)
if(TARGET rotary_program)
  install(TARGETS rotary_program)
endif()

set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/rotary)
install(EXPORT rotaryTargets NAMESPACE rotary:: DESTINATION ${config_folder})
configure_package_config_file(cmake/rotaryConfig.cmake.in rotaryConfig.cmake INSTALL_DESTINATION ${config_folder})
write_basic_package_version_file(rotaryConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/rotaryConfig.cmake ${PROJECT_BINARY_DIR}/rotaryConfigVersion.cmake
  DESTINATION ${config_folder})

# A static rotary needs libzip at every link, so it asks for it openly and `pkg-config --libs rotary` is enough. (With
# --static one would get libzip's own dependencies too, whose packages Debian's libzip-dev does not bring.)
if(BUILD_SHARED_LIBS)
  set(ROTARY_REQUIRES "Requires.private: libzip")
else()
  set(ROTARY_REQUIRES "Requires: libzip")
  set(ROTARY_THREADS " ${CMAKE_THREAD_LIBS_INIT}")
endif()
file(RELATIVE_PATH ROTARY_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" ROTARY_PC_PREFIX "${ROTARY_PC_PREFIX}")
configure_file(cmake/rotary.pc.in rotary.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/rotary.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
