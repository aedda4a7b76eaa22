// A stand-in for libnvidia-ml.so.1 with two GPUs, for machine_test.cc.
#include <cstdio>

namespace {
struct Memory {
  unsigned long long total, free, used;
};
int devices[2];
bool is_open = false;
int index_of(void* device) { return static_cast<int>(static_cast<int*>(device) - devices); }
}  // namespace

extern "C" {
int nvmlInit_v2() {
  is_open = true;
  return 0;
}
int nvmlShutdown() {
  is_open = false;
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return is_open ? 0 : 1;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &devices[index];
  return index < 2 ? 0 : 2;
}
int nvmlDeviceGetName(void* device, char* name, unsigned length) {
  std::snprintf(name, length, "Imaginary %c", "AB"[index_of(device)]);
  return 0;
}
int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  constexpr unsigned long long kMegabyte = 1 << 20;
  *memory = {(index_of(device) == 0 ? 24576 : 81920) * kMegabyte, 0, 0};
  return 0;
}
}
