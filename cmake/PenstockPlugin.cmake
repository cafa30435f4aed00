# penstock_add_plugin(NAME sources...): a shared object libNAME.so for --plugin. Installed with the package.
function(penstock_add_plugin name)
  add_library(${name} MODULE ${ARGN})
  # No libraries: undefined names come from the program that loads it. Names keep default visibility, so that inline
  # ones (exceptions, vtables) are the program's too.
  target_link_libraries(${name} PRIVATE penstock::plugin_api)
  set_target_properties(${name} PROPERTIES PREFIX lib CXX_EXTENSIONS OFF)
endfunction()
