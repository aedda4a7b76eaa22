// The CSV reader that everybody writes first: getline, stringstream, stod.
#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace reference {

/// Appends all values of a file of plain numbers, row by row.
inline void read_csv(const std::string& path, std::vector<float>& values) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::stringstream row(line);
    std::string field;
    while (std::getline(row, field, ',')) values.push_back(static_cast<float>(std::stod(field)));
  }
}

}  // namespace reference
