// Parameters in the 16 bits that matrix products read (private to runtime).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

namespace harmonics::inline in_runtime {

/// Copies of parameters, rounded once after each change instead of in every pass that reads them.
/// The memory of a copy stays where it is, so that recorded passes find it. One thread at a time.
class ShortCopies {
 public:
  /// Parameters at this place, of 32 bits, have a copy of `type` from now on; images lie
  /// channels last.
  void keep(std::size_t place, at::ScalarType type);
  [[nodiscard]] bool empty() const { return copies_.empty(); }
  /// The parameters have changed, or are about to.
  void outdate() { are_old_ = true; }
  /// Rounds the parameters, by place, if they have changed.
  void refresh(const std::vector<at::Tensor>& parameters);
  /// The copy of the parameter at this place, whose gradient is that of the parameter, in 32 bits;
  /// undefined where none is kept. After refresh().
  [[nodiscard]] at::Tensor of(std::size_t place, const at::Tensor& parameter) const;

 private:
  struct Copy {
    at::ScalarType type = at::kFloat;  // kFloat: none is kept
    at::Tensor value;
  };
  std::vector<Copy> copies_;  // by place
  bool are_old_ = true;
};

/// to[i] = from[i], in as few kernels as libtorch has it.
void copy_all(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from);

}  // namespace harmonics::inline in_runtime
