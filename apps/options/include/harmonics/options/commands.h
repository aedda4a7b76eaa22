// What a user can ask for: one struct per subcommand, filled by parse_command_line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <harmonics/graph/harp.h>
#include <harmonics/options/cluster_commands.h>
#include <harmonics/options/custody_commands.h>
#include <harmonics/options/output_style.h>
#include <harmonics/options/text_commands.h>
#include <harmonics/settings/bound_setting.h>

namespace harmonics::inline in_options {

/// harmonics graph show
struct GraphShowCommand {
  std::filesystem::path file;
  /// Named axes that are shown at a length; others by name.
  AxisValues axes;
  OutputStyle output = OutputStyle::kTable;
};

/// harmonics graph check
struct GraphCheckCommand {
  std::filesystem::path file;
};

/// harmonics graph parts
struct GraphPartsCommand {
  std::filesystem::path file;
  AxisValues axes;
  std::int64_t parts = 2;
  OutputStyle output = OutputStyle::kTable;
};

enum class DrawingFormat { kDot, kSvg };

/// harmonics graph dot, harmonics graph svg
struct GraphDrawCommand {
  DrawingFormat format = DrawingFormat::kDot;
  std::filesystem::path file;
  /// Empty: standard output.
  std::filesystem::path out;
};

/// harmonics graph zoo
struct GraphZooCommand {
  /// Empty: list the names.
  std::string name;
  std::filesystem::path out;
};

/// harmonics import
struct ImportCommand {
  /// A folder or a file.
  std::filesystem::path source;
  std::filesystem::path out;
  /// The weights stay where they are.
  bool links = false;
  /// Ceiling of the axis of tokens; 0: the model's.
  std::int64_t length = 0;
  /// Classes of a head to add; 0: none.
  std::int64_t classes = 0;
  /// ONNX: shapes of a sample and numbers, by input.
  std::map<std::string, Shape> shapes;
  std::map<std::string, std::vector<double>> values;
  /// ONNX: the axis that is the batch; below 0: none.
  std::optional<std::int64_t> batch;
  OutputStyle output = OutputStyle::kTable;
};

enum class ExportFormat { kHf, kOnnx };

/// harmonics export
struct ExportCommand {
  std::filesystem::path file;
  /// A folder for kHf, a file for kOnnx.
  std::filesystem::path target;
  ExportFormat format = ExportFormat::kHf;
  /// Empty: those that the file names.
  std::filesystem::path weights;
  OutputStyle output = OutputStyle::kTable;
};

/// How a run is secured: not at all, by a chain of custody, or also by zero-knowledge proofs of
/// every layer of an int8 network or of all of it at once.
enum class SecureMode { kNone, kChain, kZk, kNetwork };

/// What secure runs sign with, and where the chain goes.
struct SecureFlags {
  SecureMode mode = SecureMode::kNone;
  /// Empty: nothing is kept.
  std::filesystem::path proof;
  /// Empty: the only key that there is; the user's own is made where there is none.
  std::string key;
  /// Empty: the user's folder.
  std::filesystem::path keys;
  /// Steps between two announcements of weights; 0: at the start, at checkpoints and at the end.
  std::int64_t weights_every = 0;
  /// What every layer gave is signed too.
  bool layers = false;
};

/// How many bits a boundary's values have on their way: 32, 16, 8 or 4.
struct BitsFlag {
  /// Empty: all boundaries that are not named.
  std::string boundary;
  int bits = 0;
};
struct BoundaryBitsFlags {
  std::vector<BitsFlag> activations = {};
  std::vector<BitsFlag> gradients = {};
};

/// harmonics train
struct TrainCommand {
  std::filesystem::path file;
  std::vector<Binding> bindings;
  /// Named axes that have one length in this run.
  AxisValues axes = {};
  /// The flags that were given out of train_setting_rules(), as key and text; `line` is 0.
  std::vector<Setting> settings;
  /// Empty: none.
  std::filesystem::path checkpoint;
  std::int64_t checkpoint_every = 0;
  std::int64_t checkpoint_every_epochs = 0;
  bool keeps_checkpoints = false;
  bool resume = false;
  /// False: the checkpoint is only read (copies of a part save it once).
  bool saves = true;
  std::filesystem::path metrics;
  std::filesystem::path weights;
  /// A process for each part; `transport` then says what carries the boundaries.
  bool processes = false;
  std::string transport;
  bool compress = false;
  BoundaryBitsFlags bits = {};
  /// For each replica in a process, how many times as long it computes; none: as it is.
  std::vector<double> slowdowns = {};
  /// A replica that dies costs a step; the others go on, and it comes back.
  bool elastic = false;
  /// How often a run goes back to its last checkpoint because a process of it died.
  std::int64_t restarts = 3;
  /// A deployment file, or a list of backends; empty: by parts and backend.
  std::string deploy;
  /// Where the parts are cut, as `harmonics plan` writes it; empty: into --parts of equal cost.
  std::filesystem::path plan = {};
  SecureFlags secure = {};
  OutputStyle output = OutputStyle::kTable;
};

/// For StageCommand::copy: nobody said which.
inline constexpr std::int64_t kOnlyCopy = -1;

/// harmonics stage
struct StageCommand {
  TrainCommand training;
  /// Which of the parts, from 0.
  std::int64_t part = 0;
  /// All parts save into the same folder: report the digest of the whole run's weights.
  bool whole_digest = false;
  /// Which copy of the part this is, and where each copy is reached (endpoint URLs, in order);
  /// none: there is one.
  std::int64_t replica = 0;
  std::vector<std::string> replica_places;
  /// Endpoint URLs with the names of boundaries.
  std::vector<std::string> boundaries;
  /// An endpoint URL without a name, for all others; empty: none.
  std::string meet;
  std::string run;
  /// Empty: the token is in the environment, if there is one.
  std::filesystem::path token_file;
  std::filesystem::path tls_certificate;
  std::filesystem::path tls_key;
  std::filesystem::path tls_authority;
  std::int64_t first_contact_s = 60;
  std::int64_t deadline_s = 600;
  /// 0: as many as the data of this part has.
  std::int64_t batches_per_epoch = 0;
  /// Computes outputs and learns nothing: what follows is of that alone.
  bool infer = false;
  std::vector<Binding> outputs;
  /// 0: two batches for each part.
  std::int64_t in_flight = 0;
  /// An endpoint URL where whoever started this part takes its outputs; empty: nobody does.
  std::string results;
  /// Computes requests: no part reads data.
  bool requests = false;
  /// An endpoint URL where whoever started this part gives it batches of requests; empty: it takes
  /// none of its own.
  std::string feed;
  /// Batches whose outputs are there already.
  std::int64_t delivered = 0;
  /// Where rows of the outputs are kept as they come; empty: nowhere.
  std::filesystem::path kept;
  /// Where each host of the plan is reached; empty: boundaries and meet say where parts meet.
  std::filesystem::path hosts;
  /// Which of the hosts that take turns at this part, from 0.
  std::int64_t copy = kOnlyCopy;
  /// One part of a language model for 'harmonics generate' and 'serve', the memory of its
  /// cache and what computes it.
  bool generate = false;
  std::int64_t cache_mb = 1024;
  TextComputing computing = {};
};

/// harmonics quantize
struct QuantizeCommand {
  std::filesystem::path file;
  std::filesystem::path weights;
  std::filesystem::path out;
  std::vector<Binding> bindings;
  OutputStyle output = OutputStyle::kTable;
};

/// What `harmonics run --listen` is told; beside it nothing says something.
struct ServeFlags {
  /// HOST:PORT of HTTP and of gRPC; empty: not spoken.
  std::string listen = {};
  std::string listen_grpc = {};
  /// The longest that a request waits for company.
  std::int64_t max_wait_ms = 2;
  /// Rows that may wait; 0: sixteen batches.
  std::int64_t queue_rows = 0;
  /// The longest that a request may take.
  std::int64_t request_deadline_ms = 30'000;
  /// Empty: the token is in the environment, if there is one.
  std::filesystem::path token_file = {};
  std::filesystem::path tls_certificate = {};
  std::filesystem::path tls_key = {};
  std::filesystem::path tls_authority = {};

  [[nodiscard]] bool on() const { return !listen.empty() || !listen_grpc.empty(); }
};

/// harmonics run
struct RunCommand {
  std::filesystem::path file;
  std::filesystem::path weights;
  std::vector<Binding> bindings;
  std::vector<Binding> outputs;
  /// Named axes that have one length in this run.
  AxisValues axes = {};
  /// batch_size, parts, threads and backend, where given.
  std::vector<Setting> settings;
  /// Where the parts are cut: a list or a report of `harmonics plan`; empty: by parts.
  std::filesystem::path plan;
  /// A deployment file, or a list of backends; empty: by parts and backend.
  std::string deploy;
  /// A process for each part; `transport` then says what carries the boundaries.
  bool processes = false;
  std::string transport;
  bool compress = false;
  BoundaryBitsFlags bits = {};
  /// How often all parts start again because a process died; what came out is not computed again.
  std::int64_t restarts = 3;
  /// The longest wait for a tensor of another part.
  std::int64_t deadline_s = 600;
  /// Batches under way at once; 0: two for each part.
  std::int64_t in_flight = 0;
  /// A folder for what each part did when; empty: nothing is kept.
  std::filesystem::path trace;
  SecureFlags secure = {};
  /// Takes requests in place of data.
  ServeFlags serve = {};
  OutputStyle output = OutputStyle::kTable;
};

enum class ProfiledBackend { kCpu, kGpu, kFpga };
enum class ProfiledMode { kInference, kTraining, kGeneration };
enum class ProfiledOptimizer { kSgd, kAdam, kAdamW };

/// harmonics profile
struct ProfileCommand {
  /// A .harp file or a name of the zoo; empty with `serve`.
  std::filesystem::path graph;
  /// The lengths of named axes that are measured; others: the file's.
  AxisValues axes;
  ProfiledBackend backend = ProfiledBackend::kCpu;
  std::int64_t device_index = 0;
  std::vector<std::int64_t> batch_sizes = {8};
  std::vector<std::string> dtypes = {"torch.float32"};
  ProfiledMode mode = ProfiledMode::kInference;
  ProfiledOptimizer optimizer = ProfiledOptimizer::kAdam;
  std::int64_t in_flight = 4;
  std::int64_t warmup = 2;
  std::int64_t repeats = 5;
  std::int64_t threads = 0;
  /// Of generation: weights of a .harp file, numbers of sequences, tokens that they hold, tokens of
  /// a prompt in a step.
  std::filesystem::path weights;
  std::vector<std::int64_t> sequences = {1, 4, 16};
  std::int64_t context = 512;
  std::int64_t chunk = 128;
  /// 0: what is free.
  double memory_mb = 0;
  /// 0: measured with `peer`, or what is known about this type or machine.
  double bandwidth_mbps = 0;
  /// "host:port" of a machine that serves; empty: none.
  std::string peer;
  /// "[address:]port" to answer measurements on; empty: measure the graph.
  std::string serve;
  /// Empty: the processor's or card's name.
  std::string type;
  /// Empty: by the graph.
  std::string model;
  std::filesystem::path models_file = "models.yml";
  std::filesystem::path types_file = "device_types.yml";
  std::filesystem::path results_file = "profiler_results.yml";
  /// Reports of a run of a plan, to be learnt from; empty: measure the graph.
  std::vector<std::string> runs;
  /// With `runs`: the hosts of the plan, and where measured links go.
  std::filesystem::path hosts_file = "devices.yml";
  std::filesystem::path links_file = "links.yml";
  OutputStyle output = OutputStyle::kTable;
};

/// harmonics plan
struct PlanCommand {
  /// A .harp file or a name of the zoo.
  std::filesystem::path graph;
  /// The lengths of named axes for which the graph is cut; others: the file's.
  AxisValues axes;
  /// Empty: by the graph.
  std::string model;
  std::string dtype = "torch.float32";
  /// 0: the best of those that were measured; nothing: 8 where that was, else the best.
  std::optional<std::int64_t> batch_size{};
  std::int64_t buffers_in = 2;
  std::int64_t buffers_out = 2;
  /// "throughput", "latency", "cost" or "energy"; of a model that generates "tokens",
  /// "first-token" or "both".
  std::string goal = "throughput";
  std::int64_t context = 2048;
  std::int64_t sequences = 16;
  /// 0: half the context.
  std::int64_t prompt = 0;
  std::int64_t chunk = 128;
  bool explain = false;
  /// Seconds that a micro-batch may take from end to end; 0: any.
  double deadline_s = 0;
  /// The plans between which one has to choose, in place of one.
  bool front = false;
  /// Where the front is drawn; empty: nowhere.
  std::filesystem::path svg_file;
  /// Bits of all boundaries, 0: chosen for each; nothing: nobody asked.
  std::optional<int> boundary_bits{};
  double boundary_tolerance = 0.005;
  /// Several hosts of a type may take turns at a stage.
  bool replicate = false;
  /// The order in which micro-batches are learnt, and how many a batch has; no order: 1f1b, of a
  /// model that was measured for training.
  std::string pipeline;
  std::int64_t micro_batches = 4;
  /// Several pipelines at once: "one", "auto" or "runnable".
  std::string pipelines = "one";
  std::vector<std::string> excluded_hosts;
  std::filesystem::path models_file = "models.yml";
  std::filesystem::path types_file = "device_types.yml";
  std::filesystem::path hosts_file = "devices.yml";
  /// Empty: none.
  std::filesystem::path links_file;
  /// Where the parts go; empty: nowhere.
  std::filesystem::path out_dir;
  /// Where the operator graph of the plan goes; empty: nowhere.
  std::filesystem::path dag_file;
  /// Reports of a run of a plan, to be compared with it; empty: make a plan.
  std::vector<std::string> checks;
  /// The share by which a run may differ from its plan, or of tokens a second that may be lost.
  double tolerance = 0.1;
  OutputStyle output = OutputStyle::kTable;

  [[nodiscard]] bool generates() const {
    return goal == "tokens" || goal == "first-token" || goal == "both";
  }
};

/// harmonics devices
struct DevicesCommand {
  OutputStyle output = OutputStyle::kTable;
};

/// harmonics doctor
struct DoctorCommand {
  OutputStyle output = OutputStyle::kTable;
};

/// An argument of a TorchScript module and the shape of its rows.
struct SweepInput {
  std::string name;
  std::vector<std::int64_t> shape;
};

/// harmonics dispatch-sweep
struct DispatchSweepCommand {
  /// A .harp file, a name of the zoo or a TorchScript module.
  std::filesystem::path model;
  std::string device = "cpu";
  /// Empty: powers of two.
  std::vector<std::int64_t> sizes;
  std::int64_t milliseconds = 300;
  /// 0: the usual.
  std::int64_t lanes = 0;
  std::vector<SweepInput> inputs;
  OutputStyle output = OutputStyle::kTable;
};

/// harmonics dispatch-trace
struct DispatchTraceCommand {
  std::filesystem::path file;
  bool svg = false;
  /// Empty: standard output.
  std::filesystem::path out;
  OutputStyle output = OutputStyle::kTable;
};

/// harmonics trace
struct TraceCommand {
  /// Files of stages, or folders of them.
  std::vector<std::filesystem::path> files;
  /// Only these steps; all of them while `last_step` is negative.
  std::int64_t first_step = 0;
  std::int64_t last_step = -1;
  /// A .svg or .json file to write; empty: none.
  std::filesystem::path out;
  OutputStyle output = OutputStyle::kTable;
};

/// harmonics tokens
struct TokensCommand {
  std::filesystem::path tokenizer;
  /// Empty where there is a text.
  std::filesystem::path file;
  std::optional<std::string> text;
  std::string field = "text";
  bool decode = false;
  bool no_special = false;
  /// 0: as long as they are.
  std::int64_t length = 0;
  bool pad = false;
  OutputStyle output = OutputStyle::kTable;
};

enum class Shell { kBash, kZsh, kFish };

/// harmonics completion
struct CompletionCommand {
  Shell shell = Shell::kBash;
};

using Command =
    std::variant<GraphShowCommand, GraphCheckCommand, GraphPartsCommand, GraphDrawCommand,
                 GraphZooCommand, ImportCommand, ExportCommand, TrainCommand, StageCommand,
                 RunCommand, QuantizeCommand, ProfileCommand, PlanCommand, DispatchSweepCommand,
                 DispatchTraceCommand, TraceCommand, KeysNewCommand, KeysShowCommand, VerifyCommand,
                 SignCommand, CustodyExportCommand, CustodyImportCommand, CustodyShowCommand,
                 TokensCommand, GenerateCommand, TokenStageCommand, ServeCommand, DevicesCommand,
                 DoctorCommand, CompletionCommand, ServerCommand, WorkerCommand, SubmitCommand,
                 MonitorCommand, TasksCommand, TaskCommand, LogsCommand, ArtifactsCommand,
                 ReportCommand, CancelCommand, PriorityCommand, WaitCommand, WorkersCommand,
                 DrainCommand, QuotaCommand, SimCommand, AllocCommand, UpCommand>;

}  // namespace harmonics::inline in_options
