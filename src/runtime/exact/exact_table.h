// The table of this instruction set (private to runtime): included once by each exact_<set>.cc.
#pragma once

#include "exact_elements.h"
#include "exact_kernels.h"
#include "exact_products.h"
#include "exact_rows.h"

namespace harmonics::inline in_runtime {
namespace {

constexpr ExactKernels exact_table(const char* name) {
  return {
      .name = name,
      .map = exact_map,
      .activate = exact_activate,
      .activate_back = exact_activate_back,
      .multiply = exact_multiply,
      .add = exact_add,
      .times = exact_times,
      .scale = exact_scale,
      .normalize = exact_normalize,
      .normalize_back = exact_normalize_back,
      .sum = exact_sum,
      .squares = exact_squares,
      .dot = exact_dot,
      .square_sum = exact_square_sum,
      .add_rows = exact_add_rows,
      .softmax = exact_softmax,
      .softmax_back = exact_softmax_back,
      .log_sum_exp = exact_log_sum_exp,
      .layer_norm = exact_layer_norm,
      .layer_norm_back = exact_layer_norm_back,
      .layer_norm_columns = exact_layer_norm_columns,
      .rms_norm = exact_rms_norm,
      .rms_norm_back = exact_rms_norm_back,
      .sgd = exact_sgd,
      .sgd_momentum = exact_sgd_momentum,
      .adam = exact_adam,
  };
}

}  // namespace
}  // namespace harmonics::inline in_runtime
