// All of Harmonics: graphs, data, and, where it was built with libtorch, running and scheduling
// them.
//
// Code that wants to compile faster includes the headers of the modules that it uses. Writing a
// layer of one's own takes <harmonics/runtime/torch_layer.h> besides, the one header that includes
// libtorch.
#pragma once

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>
#include <harmonics/base/random.h>
#include <harmonics/data/augment_producer.h>
#include <harmonics/data/batch_producer.h>
#include <harmonics/data/cache_producer.h>
#include <harmonics/data/csv_consumer.h>
#include <harmonics/data/csv_producer.h>
#include <harmonics/data/idx_producer.h>
#include <harmonics/data/map_producer.h>
#include <harmonics/data/memory_consumer.h>
#include <harmonics/data/memory_producer.h>
#include <harmonics/data/open_producer.h>
#include <harmonics/data/prefetch_producer.h>
#include <harmonics/data/producer.h>
#include <harmonics/data/shuffle_producer.h>
#include <harmonics/data/slice_producer.h>
#include <harmonics/data/synthetic_producer.h>
#include <harmonics/dispatch/adaptive_scheduler.h>
#include <harmonics/dispatch/shared_batcher.h>
#include <harmonics/dispatch/shared_scheduler.h>
#include <harmonics/dispatch/simple_mpi_scheduler.h>
#include <harmonics/dispatch/static_hybrid_scheduler.h>
#include <harmonics/dispatch/tensor_results.h>
#include <harmonics/dispatch/work_dispatcher.h>
#include <harmonics/graph/blob.h>
#include <harmonics/graph/deployment.h>
#include <harmonics/graph/export.h>
#include <harmonics/graph/graph.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/layer_type.h>
#include <harmonics/graph/partition.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/place/plan_partition.h>
#include <harmonics/plan/choice.h>
#include <harmonics/plan/plan.h>
#include <harmonics/plan/planner.h>
#include <harmonics/plan/replan.h>
#include <harmonics/plan/report.h>
#include <harmonics/plan/request.h>
#include <harmonics/tensor/tensor.h>
#include <harmonics/transport/binding.h>

// Parts that need libtorch are missing from a build with HARMONICS_WITH_TORCH=OFF.
#if __has_include(<harmonics/runtime/cycle_runtime.h>)
#include <harmonics/dispatch/torch_work.h>
#include <harmonics/place/place.h>
#include <harmonics/place/profile.h>
#include <harmonics/runtime/cycle_runtime.h>
#include <harmonics/runtime/devices.h>
#include <harmonics/schedule/distributed_scheduler.h>
#include <harmonics/schedule/parameter_client.h>
#include <harmonics/schedule/parameter_server.h>
#include <harmonics/schedule/reduction.h>
#include <harmonics/schedule/remote_scheduler.h>
#include <harmonics/schedule/replica_scheduler.h>
#endif
