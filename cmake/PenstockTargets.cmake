# The one place for warnings, sanitizers and the shape of our libraries and tests.
include(GNUInstallDirs)

add_library(penstock_internal INTERFACE)
target_compile_options(penstock_internal INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers
  # g++ 12 sees an overlap in "text" + std::to_string(n) that is not there.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
if(PENSTOCK_SANITIZE)
  target_compile_options(penstock_internal INTERFACE -fsanitize=${PENSTOCK_SANITIZE} -fno-omit-frame-pointer -g)
  if(PENSTOCK_SANITIZE MATCHES "undefined")
    # CAF 0.17 binds references to null in its registration tables.
    target_compile_options(penstock_internal INTERFACE -fno-sanitize=null -fno-sanitize-recover=undefined)
  endif()
  target_link_options(penstock_internal INTERFACE -fsanitize=${PENSTOCK_SANITIZE})
endif()

# penstock_add_library(NAME [sources...]): target penstock_NAME, alias penstock::NAME, headers found from the repository's root.
function(penstock_add_library name)
  add_library(penstock_${name} STATIC ${ARGN})
  add_library(penstock::${name} ALIAS penstock_${name})
  set_target_properties(penstock_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(penstock_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/penstock>)
  target_link_libraries(penstock_${name} PRIVATE $<BUILD_INTERFACE:penstock_internal>)
endfunction()

# Tests are compiled once and run once: most of the time goes into parsing GoogleTest's headers, here once for all, and
# into optimising what runs for milliseconds. The holder of the headers is a program, since that is what tests are.
set(PENSTOCK_TEST_OPTIONS -fpch-preprocess $<$<CONFIG:Release>:-O1>
  # So little optimised, g++ 12 sees writes beyond strings' ends and wrong deallocations that are not there.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds;-Wno-mismatched-new-delete;-Wno-stringop-overflow>)
function(penstock_reuse_test_headers target)
  if(NOT TARGET penstock_test_headers)
    file(WRITE ${CMAKE_BINARY_DIR}/test_headers.cpp "int main() {}\n")
    add_executable(penstock_test_headers EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/test_headers.cpp)
    target_link_libraries(penstock_test_headers PRIVATE penstock_internal GTest::gtest_main GTest::gmock)
    target_precompile_headers(penstock_test_headers PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
    target_compile_options(penstock_test_headers PRIVATE ${PENSTOCK_TEST_OPTIONS})
    set_target_properties(penstock_test_headers PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
  endif()
  target_precompile_headers(${target} REUSE_FROM penstock_test_headers)
  set_target_properties(${target} PROPERTIES PCH_WARN_INVALID OFF) # with OpenMP they are parsed again
  target_compile_options(${target} PRIVATE ${PENSTOCK_TEST_OPTIONS})
endfunction()

# penstock_add_test(NAME SOURCES ... LIBRARIES ...): one GoogleTest binary; its cases appear in CTest as NAME.Suite.Case.
function(penstock_add_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LIBRARIES;LABELS" ${ARGN})
  string(REPLACE "." "_" target "test_${name}")
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE penstock_internal ${arg_LIBRARIES} GTest::gtest_main GTest::gmock)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  penstock_reuse_test_headers(${target})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  gtest_discover_tests(${target} NO_PRETTY_VALUES DISCOVERY_MODE PRE_TEST TEST_PREFIX ${name}.
    PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}")
  if(PENSTOCK_SANITIZE MATCHES "thread")
    # UCX would hook the system calls and signals that the sanitizer has hooked. A list of variables is more than
    # gtest_discover_tests can pass on.
    set(environment_file ${CMAKE_CURRENT_BINARY_DIR}/${target}_environment.cmake)
    file(WRITE ${environment_file} "if(${target}_TESTS)
  set_tests_properties(\${${target}_TESTS} PROPERTIES
    ENVIRONMENT \"UCX_MEM_EVENTS=n;UCX_MEM_MMAP_HOOK_MODE=none;UCX_HANDLE_ERRORS=none\")
endif()
")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${environment_file})
  endif()
endfunction()
