// CUDA source, compiled for the GPU at hand when it is first needed (private to runtime).
#pragma once

#include <cuda.h>

#include <array>
#include <map>
#include <string>
#include <vector>

namespace harmonics::inline in_runtime {

struct LaunchShape {
  unsigned blocks_x = 1, blocks_y = 1;
  unsigned threads_x = 1, threads_y = 1;
};

class FusedProgram {
 public:
  /// The program of `source`, which has to live on, for the device that is current; what was
  /// compiled before is taken from memory or from ~/.cache. Null where there is no compiler or it
  /// refuses: the log says why, once.
  [[nodiscard]] static const FusedProgram* find(const std::string& source,
                                                std::vector<std::string> options);

  /// On the current stream; may be recorded. `arguments` are of the types that the kernel declares.
  template <typename... Arguments>
  void launch(const char* kernel, const LaunchShape& shape, Arguments... arguments) const {
    std::array<void*, sizeof...(arguments)> places{static_cast<void*>(&arguments)...};
    start(kernel, shape, places.data());
  }

 private:
  explicit FusedProgram(CUmodule loaded) : module_(loaded) {}
  void start(const char* kernel, const LaunchShape& shape, void** arguments) const;

  CUmodule module_;
};

}  // namespace harmonics::inline in_runtime
