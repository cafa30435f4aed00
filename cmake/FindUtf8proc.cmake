# utf8proc from the system package, which ships no CMake config: imports utf8proc::utf8proc.
include(FindPackageHandleStandardArgs)
find_path(UTF8PROC_INCLUDE_DIR utf8proc.h)
find_library(UTF8PROC_LIBRARY utf8proc)
find_package_handle_standard_args(Utf8proc REQUIRED_VARS UTF8PROC_LIBRARY UTF8PROC_INCLUDE_DIR)
if(UTF8PROC_FOUND AND NOT TARGET utf8proc::utf8proc)
  add_library(utf8proc::utf8proc SHARED IMPORTED)
  set_target_properties(utf8proc::utf8proc PROPERTIES IMPORTED_LOCATION "${UTF8PROC_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${UTF8PROC_INCLUDE_DIR}")
endif()
