// Rows that a graph's producer could bring: numbers of a normal distribution, or classes.
#pragma once

#include <cstdint>

#include <harmonics/base/random.h>
#include <harmonics/graph/graph.h>
#include <harmonics/tensor/tensor.h>

namespace bench {

/// The same for the same producer; whole numbers lie below `classes`.
inline harmonics::Tensor made_rows(const harmonics::ProducerNode& node, std::int64_t rows,
                                   std::uint32_t classes) {
  harmonics::Shape shape = *node.shape;
  shape.insert(shape.begin(), rows);
  harmonics::Tensor all = harmonics::Tensor::empty(shape, node.dtype);
  harmonics::Random random(1, node.name);
  if (node.dtype == harmonics::DType::kInt64) {
    for (auto& value : all.mutable_values<std::int64_t>()) value = random.below(classes);
  } else {
    for (float& value : all.mutable_values<float>()) value = random.normal();
  }
  return all;
}

}  // namespace bench
