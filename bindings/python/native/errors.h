// How errors of the library reach Python: as the class of harmonics/errors.py that stands for their
// code.
#pragma once

namespace harmonics::python {

/// Call it once in each extension module.
void register_errors();

}  // namespace harmonics::python
