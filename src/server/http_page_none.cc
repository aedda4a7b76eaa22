// Built where cpp-httplib is missing: asking for the page says so.
#include <harmonics/base/error.h>

#include "http_page.h"

namespace harmonics {

struct HttpPage::Parts {};

HttpPage::HttpPage(const std::string&, std::uint16_t, ServerLoop&) {
  fail(ErrorCode::kUnimplemented,
       "--http is left out of this build: cpp-httplib (libcpp-httplib-dev) was not found");
}
HttpPage::~HttpPage() = default;
int HttpPage::port() const { return 0; }

}  // namespace harmonics
