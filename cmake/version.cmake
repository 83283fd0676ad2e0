# The version header, and the commit for `rotary --version`.
configure_file(${PROJECT_SOURCE_DIR}/include/rotary/version.hpp.in ${PROJECT_BINARY_DIR}/include/rotary/version.hpp @ONLY)

execute_process(
  COMMAND git -C ${PROJECT_SOURCE_DIR} describe --always --dirty --exclude *
  OUTPUT_VARIABLE ROTARY_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT ROTARY_COMMIT)
  set(ROTARY_COMMIT "unknown commit")
endif()
