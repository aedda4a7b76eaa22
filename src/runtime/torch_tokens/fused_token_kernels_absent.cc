// Where libtorch has no CUDA there are no kernels of our own.
#include "torch_tokens/token_kernels.h"

namespace harmonics::inline in_runtime {

std::unique_ptr<TokenKernels> make_fused_token_kernels(at::Device /*device*/,
                                                       at::ScalarType /*numbers*/,
                                                       bool /*steady*/) {
  return nullptr;
}

}  // namespace harmonics::inline in_runtime
