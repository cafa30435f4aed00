# What `cmake --install` puts where, so that find_package(Penstock) works: headers under include/penstock, the static
# libraries as penstock::NAME, the programs, and the package's own files with the dependencies its libraries have.
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Penstock)

# penstock_targets_below(FOLDER OUT): the targets made in a folder and everywhere below it.
function(penstock_targets_below folder out)
  get_property(found DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  get_property(subfolders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(subfolder IN LISTS subfolders)
    penstock_targets_below(${subfolder} below)
    list(APPEND found ${below})
  endforeach()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

# penstock_package_of(TARGET OUT): the arguments of find_dependency for a target that a library of ours links.
function(penstock_package_of target out)
  set(packages "DNNL::dnnl=dnnl 2.6" "OpenMP::OpenMP_CXX=OpenMP" "Threads::Threads=Threads" "CAF::core=CAF"
    "nlohmann_json::nlohmann_json=nlohmann_json 3.11" "spdlog::spdlog=spdlog" "fmt::fmt=fmt" "CLI11::CLI11=CLI11 2.1"
    "ZLIB::ZLIB=ZLIB" "toml11::toml11=toml11" "JPEG::JPEG=JPEG" "OpenSSL::Crypto=OpenSSL" "OpenSSL::SSL=OpenSSL"
    "Boost::headers=Boost 1.74" "ucx::ucp=ucx" "ucx::ucs=ucx" "hwloc::hwloc=Hwloc"
    "utf8proc::utf8proc=Utf8proc" "sentencepiece::sentencepiece=SentencePiece" "sentencepiece::train=SentencePiece")
  list(FILTER packages INCLUDE REGEX "^${target}=")
  if(NOT packages)
    message(FATAL_ERROR "cmake/PenstockInstall.cmake: say in which package ${target} is found")
  endif()
  string(REPLACE "${target}=" "" package "${packages}")
  set(${out} ${package} PARENT_SCOPE)
endfunction()

# Libraries made by penstock_add_library have an EXPORT_NAME.
set(libraries "")
set(programs "")
foreach(folder IN ITEMS kernels planner transport actors apps tools)
  if(NOT PENSTOCK_WITH_ACTORS AND folder MATCHES "actors|apps")
    continue()
  endif()
  penstock_targets_below(${PROJECT_SOURCE_DIR}/${folder} targets)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    get_target_property(export_name ${target} EXPORT_NAME)
    if(export_name AND type MATCHES "^(STATIC|INTERFACE)_LIBRARY$" AND NOT folder STREQUAL "tools")
      list(APPEND libraries ${target})
    elseif(type STREQUAL "EXECUTABLE" AND (folder STREQUAL "apps" OR target STREQUAL "penstock"))
      list(APPEND programs ${target})
    endif()
  endforeach()
endforeach()

set(dependencies "")
foreach(library IN LISTS libraries)
  get_target_property(linked ${library} LINK_LIBRARIES)
  string(REGEX MATCHALL "[A-Za-z0-9_]+::[A-Za-z0-9_]+" linked "${linked}")
  list(FILTER linked EXCLUDE REGEX "^penstock::")
  foreach(target IN LISTS linked)
    penstock_package_of(${target} package)
    list(APPEND dependencies "find_dependency(${package})")
  endforeach()
endforeach()
list(REMOVE_DUPLICATES dependencies)
list(JOIN dependencies "\n" PENSTOCK_DEPENDENCIES)

install(TARGETS ${libraries} EXPORT penstock ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(programs)
  install(TARGETS ${programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(EXPORT penstock NAMESPACE penstock:: FILE PenstockExport.cmake DESTINATION ${package_folder})

# kernels/cpu, kernels/cuda and the sockets of transport/ are for the libraries alone: their headers need those of the
# vendors.
set(socket_headers connect link listener network_thread reach tls # control/
  address filter_log network_loop reception sending ucx_endpoint wire worker) # ucx/
list(JOIN socket_headers "|" socket_headers)
foreach(folder IN ITEMS kernels planner transport actors apps)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/penstock/${folder}
    FILES_MATCHING PATTERN "*.hpp" PATTERN "cpu" EXCLUDE PATTERN "cuda" EXCLUDE PATTERN "examples" EXCLUDE
    REGEX "/transport/(control|ucx)/(${socket_headers})[.]hpp$" EXCLUDE)
endforeach()

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/PenstockConfig.cmake.in
  ${PROJECT_BINARY_DIR}/package/PenstockConfig.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/PenstockConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/PenstockConfig.cmake ${PROJECT_BINARY_DIR}/package/PenstockConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/PenstockPlugin.cmake ${CMAKE_CURRENT_LIST_DIR}/PluginAbi.cmake ${CMAKE_CURRENT_LIST_DIR}/FindCAF.cmake
  ${CMAKE_CURRENT_LIST_DIR}/FindHwloc.cmake ${CMAKE_CURRENT_LIST_DIR}/FindSentencePiece.cmake
  ${CMAKE_CURRENT_LIST_DIR}/FindUtf8proc.cmake DESTINATION ${package_folder})
