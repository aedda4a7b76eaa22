#include <harmonics/base/private_file.h>

#include <sys/stat.h>

#include <cerrno>

#include <harmonics/base/error.h>

namespace harmonics::inline in_base {

void require_private(const std::filesystem::path& file, std::string_view what) {
  struct stat facts {};
  if (::stat(file.c_str(), &facts) != 0) {
    fail_errno(errno, format("cannot read '{}'", file.string()));
  }
  if ((facts.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    fail(ErrorCode::kPermissionDenied,
         "'{}' is {} that others may read (mode {:o}): chmod 600 it, and make a new one if it may "
         "have been read",
         file.string(), what, facts.st_mode & 0777u);
  }
}

}  // namespace harmonics::inline in_base
