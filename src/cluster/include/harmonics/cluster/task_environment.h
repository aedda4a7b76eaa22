// The variables by which a worker tells a task what it is and has (docs/guides/cluster.md), and the
// tasks that come with harmonics their programs.
#pragma once

#include <string_view>

namespace harmonics::inline in_cluster {

/// What begins like this is of harmonics: a task gets none of it from its worker's own environment,
/// but for what tells of the machine.
inline constexpr std::string_view kVariablePrefix = "HARMONICS_";

/// The number of the task.
inline constexpr const char* kTaskIdVariable = "HARMONICS_TASK_ID";
/// Its name, as submitted.
inline constexpr const char* kTaskNameVariable = "HARMONICS_TASK_NAME";
/// The number of the attempt, from 1.
inline constexpr const char* kAttemptVariable = "HARMONICS_ATTEMPT";
/// Who submitted it.
inline constexpr const char* kTaskUserVariable = "HARMONICS_USER";
/// The name of the worker that runs it.
inline constexpr const char* kTaskWorkerVariable = "HARMONICS_WORKER";
/// Its place in an array of tasks, from 0.
inline constexpr const char* kArrayIndexVariable = "HARMONICS_ARRAY_INDEX";
/// The names of its devices with commas between; empty: it has none.
inline constexpr const char* kTaskDevicesVariable = "HARMONICS_DEVICES";
/// Its share of its device, such as 0.25; not set for one that has whole devices.
inline constexpr const char* kGpuShareVariable = "HARMONICS_GPU_SHARE";
/// Before the name of each counted resource that it has, in capitals.
inline constexpr std::string_view kResourcePrefix = "HARMONICS_RESOURCE_";
/// The descriptor for lines of progress (docs/formats/progress.md).
inline constexpr const char* kProgressVariable = "HARMONICS_PROGRESS_FD";
/// Before the name of each of its parameters, see param_variable.
inline constexpr std::string_view kParamPrefix = "HARMONICS_PARAM_";

/// Its place in its gang or pipeline, from 0.
inline constexpr const char* kGangRankVariable = "HARMONICS_GANG_RANK";
/// How many there are in it.
inline constexpr const char* kGangSizeVariable = "HARMONICS_GANG_SIZE";
/// All of them by rank: "worker-1=gpu-1:45123,worker-2=gpu-2:41001".
inline constexpr const char* kGangPeersVariable = "HARMONICS_GANG_PEERS";
/// A port that is the same for all of them, for what they may listen on.
inline constexpr const char* kGangPortVariable = "HARMONICS_GANG_PORT";
/// A secret that they alone know.
inline constexpr const char* kGangSecretVariable = "HARMONICS_GANG_SECRET";

/// In a stage of a pipeline: what was submitted, as JSON.
inline constexpr const char* kPipelineVariable = "HARMONICS_PIPELINE";
/// The graph, as .harp text.
inline constexpr const char* kPipelineGraphVariable = "HARMONICS_PIPELINE_GRAPH";
/// The plan (docs/formats/pipeline-plan.md).
inline constexpr const char* kPipelinePlanVariable = "HARMONICS_PIPELINE_PLAN";
/// The files of the worker's certificate, as JSON; not set where it has none.
inline constexpr const char* kPipelineTlsVariable = "HARMONICS_PIPELINE_TLS";

/// Of the machine: where data sets lie by name.
inline constexpr const char* kDataFolderVariable = "HARMONICS_DATA_DIR";
/// Of the machine: where the keys lie that secure runs sign with. `custody` reads it.
inline constexpr const char* kKeysFolderVariable = "HARMONICS_KEYS";

/// Of a worker that poses as slower than it is: how many times as long every pass takes. `runtime`
/// reads it.
inline constexpr const char* kTaskSlowdownVariable = "HARMONICS_SLOWDOWN";
/// From a task to `harmonics stage`: the secret that the parts of a run know.
inline constexpr const char* kTokenVariable = "HARMONICS_TOKEN";
/// From a task to `harmonics stage`: the file in which its passes are traced. `runtime` reads it.
inline constexpr const char* kTaskTraceVariable = "HARMONICS_PASS_TRACE";

}  // namespace harmonics::inline in_cluster
