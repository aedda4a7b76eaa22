// Files that hold secrets.
#pragma once

#include <filesystem>
#include <string_view>

namespace harmonics::inline in_base {

/// An Error (kPermissionDenied) when others than its owner may read or write `file`, which `what`
/// names ("a secret key"); one that is not there is another.
void require_private(const std::filesystem::path& file, std::string_view what);

}  // namespace harmonics::inline in_base
