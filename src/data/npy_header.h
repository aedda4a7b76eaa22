// The header of a NumPy file: what lies in it, and where.
#pragma once

#include <cstdint>
#include <string>

#include <harmonics/data/byte_source.h>
#include <harmonics/tensor/dtype.h>

namespace harmonics::inline in_data {

struct NpyHeader {
  std::string descr;  // "<f4"
  bool fortran_order = false;
  Shape shape;
  std::uint64_t data_offset = 0;
};

/// Reads the header of versions 1, 2 and 3. A foreign file, a header beyond kMaxNpyHeader bytes, an
/// entry that is not known and more than kMaxNpyAxes axes are Errors that name the file.
[[nodiscard]] NpyHeader read_npy_header(const ByteSource& file);

}  // namespace harmonics::inline in_data
