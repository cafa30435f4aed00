# What builders of plug-ins use. Installed with the package.
set(PENSTOCK_PLUGIN_ABI_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/PluginAbi.cmake)

# penstock_add_abi_header(TARGET ROOT FOLDER): a target that keeps FOLDER/penstock_plugin_abi.hpp up to date with the
# headers under ROOT.
function(penstock_add_abi_header target root folder)
  set(header ${folder}/penstock_plugin_abi.hpp)
  add_custom_command(OUTPUT ${header}
    COMMAND ${CMAKE_COMMAND} -DROOT=${root} -DOUTPUT=${header} -DDEPFILE=${header}.d -P ${PENSTOCK_PLUGIN_ABI_SCRIPT}
    DEPENDS ${PENSTOCK_PLUGIN_ABI_SCRIPT} DEPFILE ${header}.d COMMENT "Numbering the headers of plug-ins" VERBATIM)
  add_custom_target(${target} DEPENDS ${header})
endfunction()

# penstock_add_plugin(NAME sources...): a shared object libNAME.so for --plugin.
function(penstock_add_plugin name)
  add_library(${name} MODULE ${ARGN})
  # The number of the headers that this plug-in really sees, whatever became of them since they were installed.
  get_target_property(imported penstock::plugin_api IMPORTED)
  if(imported)
    get_target_property(root penstock::plugin_api INTERFACE_INCLUDE_DIRECTORIES) # one, as installed
    set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name}_abi)
    penstock_add_abi_header(${name}_abi ${root} ${folder})
    add_dependencies(${name} ${name}_abi)
    target_include_directories(${name} BEFORE PRIVATE ${folder})
  endif()
  # No libraries: undefined names come from the program that loads it. Names keep default visibility, so that inline
  # ones (exceptions, vtables) are the program's too.
  target_link_libraries(${name} PRIVATE penstock::plugin_api)
  set_target_properties(${name} PROPERTIES PREFIX lib CXX_EXTENSIONS OFF)
endfunction()
