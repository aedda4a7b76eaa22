// The setting of Metaspace that its pre-tokeniser and its decoder share.
#pragma once

#include <string>

#include "section.h"

namespace harmonics::inline in_text {

enum class PrependScheme { kAlways, kFirst, kNever };

struct MetaspaceSettings {
  std::string replacement;  // what stands for a space
  PrependScheme prepend = PrependScheme::kAlways;
  bool split = true;
};

[[nodiscard]] MetaspaceSettings read_metaspace_settings(const Section& section);

}  // namespace harmonics::inline in_text
