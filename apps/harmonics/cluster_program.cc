#include "cluster_program.h"

#include <unistd.h>

#include <cerrno>

#include <harmonics/base/error.h>

#include "torch_program.h"

namespace harmonics::inline in_front {

void become_cluster_program(char** argv) {
  const std::string program = (torch_program().parent_path() / "harmonics-cluster").string();
  ::execv(program.c_str(), argv);
  if (errno == ENOENT) {
    fail(ErrorCode::kUnimplemented,
         "this command needs '{}', which is not there: build with HARMONICS_WITH_GRPC=ON (and gRPC "
         "installed), or install it beside this program",
         program);
  }
  fail_errno(errno, format("cannot start '{}'", program));
}

}  // namespace harmonics::inline in_front
