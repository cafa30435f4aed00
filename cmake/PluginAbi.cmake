# Writes the header with the number that a program and its plug-ins must agree on: a hash of every header that a plug-in
# can see, comments and white space left out. Run at build time, for the program and by penstock_add_plugin for a plug-in:
# cmake -DROOT=<folder of the headers> -DOUTPUT=<header> -DDEPFILE=<file> -P PluginAbi.cmake
cmake_minimum_required(VERSION 3.25)
set(waiting apps/plugins/plugin_api.hpp)
set(headers "")
while(waiting)
  list(POP_FRONT waiting header)
  if(NOT header IN_LIST headers)
    list(APPEND headers ${header})
    file(STRINGS ${ROOT}/${header} includes REGEX "^#include \"[^\"]+\"")
    list(TRANSFORM includes REPLACE "^#include \"([^\"]+)\".*$" "\\1")
    list(APPEND waiting ${includes})
  endif()
endwhile()
list(SORT headers)
set(text "")
set(paths "")
foreach(header IN LISTS headers)
  file(READ ${ROOT}/${header} content)
  string(REGEX REPLACE "//[^\n]*" "" content "${content}")
  string(REGEX REPLACE "[ \t\r\n]+" " " content "${content}")
  string(APPEND text "${header}:${content}\n")
  string(APPEND paths " ${ROOT}/${header}")
endforeach()
string(SHA256 hash "${text}")
string(SUBSTRING ${hash} 0 8 hash)

# Touched only when it changes, so that what includes it is compiled again only then.
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT "// Generated: the number of the headers that plug-ins see.
#pragma once

#include <cstdint>

namespace penstock::apps {

/// Equal on both sides, or the plug-in is refused.
inline constexpr std::uint32_t plugin_abi = 0x@hash@;

} // namespace penstock::apps
")
file(WRITE ${DEPFILE} "${OUTPUT}:${paths}\n")
