// The files of the page (web/), built in: what a browser is given, and the same as one file.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include <harmonics/base/json.h>

namespace harmonics::inline in_server {

struct PageFile {
  std::string_view path;  ///< "/index.html"
  std::string_view type;
  std::string_view bytes;
};
[[nodiscard]] std::span<const PageFile> page_files();

/// A page that needs no server: `data` is what its views show. Nothing in it is taken for anything
/// but text.
[[nodiscard]] std::string report_page(const Json& data);

}  // namespace harmonics::inline in_server
