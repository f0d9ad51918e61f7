# The CMake package of evb. All paths are computed from the place of this file, so the folder into
# which evb was installed can be moved.
get_filename_component(_evb_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
find_package(Threads REQUIRED)

if(NOT TARGET evb::evb)
  add_library(evb::evb SHARED IMPORTED)
  set_target_properties(evb::evb PROPERTIES
    IMPORTED_LOCATION "${_evb_prefix}/lib/libevb.so"
    IMPORTED_SONAME "libevb.so.0"
    INTERFACE_INCLUDE_DIRECTORIES "${_evb_prefix}/include")
endif()

if(NOT TARGET evb::static)
  add_library(evb::static STATIC IMPORTED)
  set_target_properties(evb::static PROPERTIES
    IMPORTED_LOCATION "${_evb_prefix}/lib/libevb.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_evb_prefix}/include"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")
endif()

unset(_evb_prefix)
