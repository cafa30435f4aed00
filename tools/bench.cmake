# Benchmarks of kernels, included by tools/CMakeLists.txt.
if(PENSTOCK_WITH_CPU)
  find_package(OpenMP REQUIRED)
  add_executable(bench_step bench_step.cpp)
  target_link_libraries(bench_step PRIVATE penstock_internal penstock::models)
  add_executable(bench_peak bench_peak.cpp)
  target_link_libraries(bench_peak PRIVATE penstock_internal OpenMP::OpenMP_CXX)
endif()
