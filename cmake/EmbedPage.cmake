# Writes the files of web/ into a C++ source: cmake -DWEB=… -DSCRIPTS=a.js,b.js -DOUT=… -P EmbedPage.cmake
#
# The scripts are plain modules. They become one: lines that import go, the word "export" too, so names at the top of
# a module differ from those of the others.
string(REPLACE "," ";" SCRIPTS "${SCRIPTS}")
set(bundle "'use strict';\n(() => {\n")
foreach(script IN LISTS SCRIPTS)
  file(READ ${WEB}/${script} text)
  string(REGEX REPLACE "(^|\n)import [^\n]*" "\\1" text "${text}")
  string(REGEX REPLACE "(^|\n)export " "\\1" text "${text}")
  string(APPEND bundle "${text}")
endforeach()
string(APPEND bundle "start();\n})();\n")
if(bundle MATCHES "</script")
  message(FATAL_ERROR "a script of the page holds the end of a script: a report could not hold it")
endif()
get_filename_component(folder ${OUT} DIRECTORY)
file(WRITE ${folder}/page.js "${bundle}")

function(embed path file type)
  file(READ ${file} hex HEX)
  string(LENGTH "${hex}" digits)
  math(EXPR bytes "${digits} / 2")
  string(REGEX REPLACE "(..)" "\\\\x\\1" text "${hex}")
  # In pieces of 64 bytes: a line of source has an end.
  string(REGEX REPLACE "(................................................................................................................................................................................................................................................................)" "\\1\"\n    \"" text "${text}")
  set(entries "${entries}    {\"${path}\", \"${type}\",\n     std::string_view(\"${text}\", ${bytes})},\n" PARENT_SCOPE)
endfunction()
set(entries "")
embed(/index.html ${WEB}/index.html "text/html; charset=utf-8")
embed(/page.css ${WEB}/page.css "text/css; charset=utf-8")
embed(/page.js ${folder}/page.js "text/javascript; charset=utf-8")
embed(/icon.svg ${WEB}/icon.svg "image/svg+xml")
file(WRITE ${OUT} "// Made by EmbedPage.cmake of web/.
#include <array>

#include <harmonics/server/page_files.h>

namespace harmonics::inline in_server {
namespace {

constexpr std::array kPageFiles = std::to_array<PageFile>({
${entries}});

}  // namespace

std::span<const PageFile> page_files() { return kPageFiles; }

}  // namespace harmonics::inline in_server
")
