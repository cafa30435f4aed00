# hwloc 2 from the system package, which ships no CMake config: imports hwloc::hwloc.
include(FindPackageHandleStandardArgs)
find_path(HWLOC_INCLUDE_DIR hwloc.h)
find_library(HWLOC_LIBRARY hwloc)
find_package_handle_standard_args(Hwloc REQUIRED_VARS HWLOC_LIBRARY HWLOC_INCLUDE_DIR)
if(HWLOC_FOUND AND NOT TARGET hwloc::hwloc)
  add_library(hwloc::hwloc SHARED IMPORTED)
  set_target_properties(hwloc::hwloc PROPERTIES IMPORTED_LOCATION "${HWLOC_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${HWLOC_INCLUDE_DIR}")
endif()
