// The dispatcher on a real GPU: how well copies and computing overlap, GPU and CPU together, and
// eight processes with small batches that share the GPU. Says so and ends where there is no GPU.
#include <sys/wait.h>
#include <torch/script.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/format.h>
#include <harmonics/base/log.h>
#include <harmonics/dispatch/adaptive_scheduler.h>
#include <harmonics/dispatch/shared_batcher.h>
#include <harmonics/dispatch/static_hybrid_scheduler.h>
#include <harmonics/dispatch/torch_work.h>
#include <harmonics/tensor/torch.h>

#include "rounds.h"

namespace {

using namespace harmonics;
using bench::median;
using bench::row;

double now_s() { return in_seconds(SteadyClock().now()); }

// --- models ---

std::filesystem::path saved(const std::string& name, const torch::jit::Module& module) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / format("harmonics-bench-{}-{}.pt", ::getpid(), name);
  module.save(file.string());
  return file;
}

// Little arithmetic on many bytes: the copies decide.
std::filesystem::path memory_heavy() {
  torch::jit::Module module("memory");
  module.define("def forward(self, x):\n  return torch.tanh(x) * 0.5 + x\n");
  return saved("memory", module);
}

// A chain of matrix products on few bytes: the arithmetic decides.
std::filesystem::path compute_heavy(std::int64_t width, int layers) {
  torch::jit::Module module("compute");
  torch::manual_seed(1);
  std::string text = "def forward(self, x):\n";
  for (int layer = 0; layer < layers; ++layer) {
    module.register_parameter(format("w{}", layer),
                              torch::randn({width, width}) / std::sqrt(static_cast<double>(width)),
                              /*is_buffer=*/true);
    text += format("  x = torch.relu(torch.mm(x, self.w{}))\n", layer);
  }
  module.define(text + "  return x\n");
  return saved(format("compute-{}", width), module);
}

void draw(torch::jit::Module& module, const std::string& name, at::IntArrayRef shape,
          std::int64_t fan_in) {
  module.register_parameter(name, torch::randn(shape) / std::sqrt(static_cast<double>(fan_in)),
                            /*is_buffer=*/true);
}

// Pictures of 32 x 32 through convolutions of 64 channels.
std::filesystem::path convolutions(int layers) {
  torch::jit::Module module("convolutions");
  torch::manual_seed(2);
  std::string text = "def forward(self, x):\n  x = x.view(-1, 3, 32, 32)\n";
  for (int layer = 0; layer < layers; ++layer) {
    const std::int64_t channels = layer == 0 ? 3 : 64;
    draw(module, format("w{}", layer), {64, channels, 3, 3}, 9 * channels);
    text += format("  x = torch.relu(torch.conv2d(x, self.w{}, padding=1))\n", layer);
  }
  module.define(text + "  return x.mean([2, 3])\n");
  return saved("convolutions", module);
}

// Sequences of 64 tokens of 256 numbers through blocks of attention and two linear layers.
std::filesystem::path attention(int layers) {
  torch::jit::Module module("attention");
  torch::manual_seed(3);
  std::string text = "def forward(self, x):\n  x = x.view(-1, 64, 256)\n";
  for (int layer = 0; layer < layers; ++layer) {
    for (const char* name : {"q", "k", "v", "o"})
      draw(module, format("{}{}", name, layer), {256, 256}, 256);
    draw(module, format("up{}", layer), {256, 1024}, 256);
    draw(module, format("down{}", layer), {1024, 256}, 1024);
    text += format(
        "  n = torch.layer_norm(x, [256])\n"
        "  a = torch.matmul(torch.matmul(n, self.q{0}), torch.matmul(n, self.k{0}).transpose(1, "
        "2))\n"
        "  n = torch.matmul(torch.softmax(a / 16.0, -1), torch.matmul(n, self.v{0}))\n"
        "  x = x + torch.matmul(n, self.o{0})\n"
        "  n = torch.matmul(torch.layer_norm(x, [256]), self.up{0})\n"
        "  x = x + torch.matmul(n * torch.sigmoid(1.702 * n), self.down{0})\n",
        layer);
  }
  module.define(text + "  return x.mean(1)\n");
  return saved("attention", module);
}

struct Load {
  std::string name;
  std::filesystem::path model;
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::size_t batch = 0;
  std::int64_t cpu_rows = 0;  // for the CPU alone
};

// --- overlap ---

double dispatch_seconds(const Load& load, const std::filesystem::path& model, int lanes,
                        TensorMapLoader& loader) {
  SimpleScheduler scheduler("cuda:0", load.batch, load.batch * static_cast<std::size_t>(lanes));
  TorchDispatcher dispatcher(scheduler, script_functions({.file = model}), {.lanes = lanes});
  std::vector<double> times;
  for (int round = 0; round < 6; ++round) {
    loader.rewind();
    const double start = now_s();
    (void)dispatcher.run(loader);
    if (round > 0) times.push_back(now_s() - start);
  }
  return median(times);
}

// The same sub-batches on data that lies on the GPU already, one after the other.
double compute_seconds(const Load& load) {
  torch::jit::Module module = torch::jit::load(load.model.string(), at::kCUDA);
  const c10::InferenceMode guard;
  const at::Tensor x = torch::rand({load.rows, load.width}).to(at::kCUDA);
  std::vector<double> times;
  for (int round = 0; round < 6; ++round) {
    torch::cuda::synchronize();
    const double start = now_s();
    for (std::int64_t at = 0; at < load.rows; at += static_cast<std::int64_t>(load.batch)) {
      const std::int64_t end = std::min(load.rows, at + static_cast<std::int64_t>(load.batch));
      (void)module.forward({x.slice(0, at, end)}).toTensor();
    }
    torch::cuda::synchronize();
    if (round > 0) times.push_back(now_s() - start);
  }
  return median(times);
}

bool overlap(const Load& load) {
  torch::jit::Module nothing("identity");
  nothing.define("def forward(self, x):\n  return x\n");
  const std::filesystem::path identity = saved("identity", nothing);
  TensorMapLoader loader({{"x", from_torch(torch::rand({load.rows, load.width}))}});
  constexpr int kLanes = 4;
  const double copy = dispatch_seconds(load, identity, kLanes, loader);
  const double compute = compute_seconds(load);
  const double one = dispatch_seconds(load, load.model, 1, loader);
  const double wall = dispatch_seconds(load, load.model, kLanes, loader);
  std::printf("%s: copy %.4f s, compute %.4f s, one stream %.4f s, %d streams %.4f s\n",
              load.name.c_str(), copy, compute, one, kLanes, wall);
  return row(load.name + ": wall / max(copy, compute)", format("{:.4f} s", wall),
             format("{:.4f} s", std::max(copy, compute)), wall / std::max(copy, compute),
             "<= 1.15");
}

// --- GPU and CPU ---

/// One load over some devices, again and again.
class Dispatched {
 public:
  Dispatched(const Load& load, TensorMapLoader& rows, std::vector<std::string> devices)
      : rows_(rows),
        scheduler_(std::move(devices)),
        dispatcher_(scheduler_, script_functions({.file = load.model}), {.lanes = 3}) {}

  double rows_per_second() {
    rows_.rewind();
    const double start = now_s();
    (void)dispatcher_.run(rows_);
    return static_cast<double>(rows_.size()) / (now_s() - start);
  }

 private:
  TensorMapLoader& rows_;
  AdaptiveScheduler scheduler_;
  TorchDispatcher dispatcher_;
};

// A GPU's clock drifts: each round measures all three.
bool hybrid(const Load& load) {
  TensorMapLoader whole({{"x", from_torch(torch::rand({load.rows, load.width}))}});
  TensorMapLoader few({{"x", from_torch(torch::rand({load.cpu_rows, load.width}))}});
  Dispatched gpu(load, whole, {"cuda:0"}), cpu(load, few, {"cpu"});
  Dispatched both(load, whole, {"cuda:0", "cpu"});
  std::vector<double> alone, beside, together, ratios;
  for (int round = 0; round < 6; ++round) {
    const double one = gpu.rows_per_second(), other = cpu.rows_per_second();
    const double all = both.rows_per_second();
    if (round == 0) continue;
    alone.push_back(one);
    beside.push_back(other);
    together.push_back(all);
    ratios.push_back(all / (one + other));
  }
  return row(load.name + ": GPU and CPU together / sum of both alone",
             format("{:.4g} rows/s", median(together)),
             format("{:.4g} + {:.4g} rows/s", median(alone), median(beside)), median(ratios),
             ">= 0.94");
}

// --- eight processes ---

// Each process computes its own small batches for a while and reports its rows per second. They are
// this program started again, since CUDA does not survive a fork.
constexpr std::int64_t kSmallWidth = 512;
constexpr std::int64_t kSmallRows = 8;
constexpr int kProcesses = 8;

int process_main(const std::string& mode, const std::string& model, const std::string& name,
                 double seconds) {
  torch::jit::Module module = torch::jit::load(model, at::kCUDA);
  const auto work = [&](const Tensor& rows) {
    const c10::InferenceMode guard;
    return from_torch(module.forward({to_torch(rows).to(at::kCUDA)}).toTensor().cpu());
  };
  const Tensor rows = from_torch(torch::rand({kSmallRows, kSmallWidth}));
  std::unique_ptr<SharedBatcher> batcher;
  if (mode == "merged") {
    const TensorSpec row{{kSmallWidth}, DType::kFloat32};
    batcher = std::make_unique<SharedBatcher>(
        SharedBatcherConfig{.name = name,
                            .input_row = row,
                            .output_row = row,
                            .slot_rows = static_cast<std::size_t>(kSmallRows)},
        [&](Tensor&& merged) { return work(merged); });
  }
  const auto once = [&] { (void)(batcher ? batcher->run(rows) : work(rows)); };
  for (int warm = 0; warm < 20; ++warm) once();
  std::printf("ready\n");
  std::fflush(stdout);
  if (std::getchar() == EOF) return 1;
  const double start = now_s();
  std::int64_t done = 0;
  while (now_s() - start < seconds) {
    once();
    done += kSmallRows;
  }
  std::printf("%.6f\n", static_cast<double>(done) / (now_s() - start));
  std::fflush(stdout);
  (void)std::getchar();  // the owner stays until all are done
  return 0;
}

struct Process {
  FILE* in = nullptr;
  FILE* out = nullptr;
  pid_t pid = 0;
};

Process start_process(const std::vector<std::string>& arguments) {
  int to[2], from[2];
  if (::pipe(to) != 0 || ::pipe(from) != 0) std::exit(2);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(to[0], 0);
    ::dup2(from[1], 1);
    for (const int end : {to[0], to[1], from[0], from[1]}) ::close(end);
    std::vector<char*> argv;
    for (const std::string& argument : arguments)
      argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    ::execv("/proc/self/exe", argv.data());
    ::_exit(127);
  }
  ::close(to[0]);
  ::close(from[1]);
  return {::fdopen(to[1], "w"), ::fdopen(from[0], "r"), pid};
}

std::string line_of(const Process& process) {
  char buffer[256];
  if (std::fgets(buffer, sizeof buffer, process.out) == nullptr) {
    std::fprintf(stderr, "a process ended early\n");
    std::exit(2);
  }
  return buffer;
}

// Rows per second of all processes together.
double shared_rate(const std::string& mode, const std::filesystem::path& model, double seconds) {
  const std::string name = format("bench-{}-{}", mode, ::getpid());
  std::vector<Process> processes;
  for (int p = 0; p < kProcesses; ++p) {
    processes.push_back(start_process(
        {"dispatch_gpu", "--process", mode, model.string(), name, format("{}", seconds)}));
  }
  const auto tell = [](const Process& process) {
    std::fputc('\n', process.in);
    std::fflush(process.in);
  };
  for (const Process& process : processes) (void)line_of(process);
  for (const Process& process : processes) tell(process);
  double rate = 0;
  for (const Process& process : processes) rate += std::strtod(line_of(process).c_str(), nullptr);
  for (const Process& process : processes) tell(process);
  for (const Process& process : processes) {
    std::fclose(process.in);
    std::fclose(process.out);
    ::waitpid(process.pid, nullptr, 0);
  }
  return rate;
}

bool shared(double seconds) {
  const std::filesystem::path model = compute_heavy(kSmallWidth, 16);
  const double alone = shared_rate("alone", model, seconds);
  const double merged = shared_rate("merged", model, seconds);
  std::filesystem::remove(model);
  return row(format("{} processes of {} rows: merged / uncoordinated", kProcesses, kSmallRows),
             format("{:.4g} rows/s", merged), format("{:.4g} rows/s", alone), merged / alone,
             ">= 2");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 6 && std::string_view(argv[1]) == "--process") {
    return process_main(argv[2], argv[3], argv[4], std::strtod(argv[5], nullptr));
  }
  const bool short_run = bench::has_flag(argc, argv, "--short");
  const bool check = bench::has_flag(argc, argv, "--check");
  if (!torch::cuda::is_available()) {
    std::printf("no GPU answers: nothing is measured\n");
    return check ? 1 : 0;
  }
  set_log_level(LogLevel::kError);
  const std::int64_t scale = short_run ? 1 : 8;
  const Load memory{"memory-heavy", memory_heavy(), 50'000 * scale, 1024, 8192};
  const Load compute{"compute-heavy", compute_heavy(2048, 24), 8192 * scale, 2048, 4096, 2048};
  std::printf("name | ours | reference | ratio | bar\n");
  bool good = shared(short_run ? 0.5 : 4);  // first: this process must not hold the GPU yet
  good &= overlap(memory);
  good &= overlap(compute);
  const Load pictures{"convolutions", convolutions(4), 2048 * scale, 3072, 4096, 512};
  const Load sequences{"attention", attention(4), 512 * scale, 64 * 256, 1024, 128};
  for (const Load* load : {&compute, &pictures, &sequences}) good &= hybrid(*load);
  for (const Load* load : {&memory, &compute, &pictures, &sequences}) {
    std::filesystem::remove(load->model);
  }
  return check && !good ? 1 : 0;
}
