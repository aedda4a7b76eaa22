/* Harmonics for other languages: the thin border that their bindings cross.
 *
 * Objects are opaque and freed by the caller with the function of their kind. Texts go in and out
 * as UTF-8; what a function hands out through `char**` is freed with hm_free. Every function that
 * can fail answers 0, or the number of a harmonics::ErrorCode; hm_last_error then says what went
 * wrong on this thread. No exception crosses. An object is used by one thread at a time.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct hm_graph hm_graph;
typedef struct hm_producer hm_producer;
typedef struct hm_consumer hm_consumer;
typedef struct hm_engine hm_engine;   /* a CycleRuntime or one of the schedulers */
typedef struct hm_end hm_end;         /* one end of a boundary */
typedef struct hm_reducer hm_reducer; /* one rank of a sum over processes */
typedef struct hm_tensors hm_tensors; /* tensors with names, in name order */

/* A tensor in main memory. dtype is a name such as "float32". */
typedef struct hm_tensor {
  const char* name;
  const char* dtype;
  int32_t rank;
  const int64_t* shape;
  void* data;
  uint64_t size;
  /* Of tensors that go in: called with `owner` once nobody uses `data` any more; may be null, and
   * then the memory must outlive the call. */
  void (*release)(void* owner);
  void* owner;
} hm_tensor;

/* What went wrong last on this thread: "" if nothing did. Valid until the next call. */
const char* hm_last_error(void);
const char* hm_version(void);
void hm_free(void* memory);

/* Graphs. */
int hm_graph_load(const char* path, hm_graph** out);
int hm_graph_parse(const char* text, hm_graph** out);
int hm_graph_zoo(const char* name, hm_graph** out);
int hm_graph_decode(const void* bytes, uint64_t size, hm_graph** out);
int hm_graph_encode(const hm_graph* graph, void** bytes, uint64_t* size);
/* Completes producers without a shape from the data that will be bound to them. */
int hm_graph_resolve(const hm_graph* graph, const char* const* names, hm_producer* const* producers,
                     size_t count, hm_graph** out);
/* Fills `out`, which has room for `parts`. */
int hm_graph_partition(const hm_graph* graph, size_t parts, hm_graph** out);
/* {"name", "layers", "producers": [{"name", "boundary", "dtype", "shape"}], "consumers": [...],
 * "learns", "resolved"} */
int hm_graph_describe(const hm_graph* graph, char** json);
void hm_graph_free(hm_graph* graph);

/* Data. A producer may be bound several times; freeing it here takes nothing from where it is
 * bound. */
/* `settings` is text such as "columns=0-63&scale=0.0625", as after the '?' of hm_producer_open;
   null: all defaults. A file of more rows than `row_limit` is an error; 0: no limit of the
   caller's. */
int hm_producer_csv(const char* path, const char* settings, int64_t row_limit, hm_producer** out);
/* A source such as "csv:digits.csv?columns=0-63"; paths are relative to `folder`. */
int hm_producer_open(const char* source, const char* folder, hm_producer** out);
/* A file that the caller reads, in place of one of this machine: `read` fills `out` with the bytes
 * from `offset` on and answers 0 when all went well. It may be called from any thread; `release` is
 * called with `context` when nobody needs it any more. */
typedef struct hm_byte_request {
  uint64_t offset;
  void* out;
  uint64_t size;
  /* Room for a text that says what went wrong. */
  char* error;
  size_t error_size;
} hm_byte_request;
typedef struct hm_bytes {
  uint64_t size;
  int (*read)(void* context, const hm_byte_request* request);
  void (*release)(void* context);
  void* context;
} hm_bytes;
/* A source as above whose path is only a name: the bytes are read through `bytes`. */
int hm_producer_open_bytes(const char* source, const hm_bytes* bytes, hm_producer** out);
/* Samples that are asked for: those whose numbers stand in `rows` go to `out`, one after another.
 */
typedef struct hm_row_request {
  const int64_t* rows;
  int64_t count;
  void* out;
  uint64_t size;
  /* Room for a text that says what went wrong. */
  char* error;
  size_t error_size;
} hm_row_request;
/* Samples that the caller makes. `read` answers 0 when all went well and may be called from any
 * thread; `release` is called with `context` when nobody needs it any more. */
typedef struct hm_rows {
  const char* dtype;
  const int64_t* shape;
  int32_t rank;
  int64_t row_count;
  int (*read)(void* context, const hm_row_request* request);
  void (*release)(void* context);
  void* context;
} hm_rows;
int hm_producer_rows(const hm_rows* rows, hm_producer** out);
int hm_producer_shuffle(const hm_producer* source, hm_producer** out);
int hm_producer_batch(const hm_producer* source, int64_t batch_size, hm_producer** out);
/* Samples that can be read in any order, kept in memory from the first time on; those that take
 * more than `limit_bytes` are not kept, and one warning says so. */
int hm_producer_cache(const hm_producer* source, uint64_t limit_bytes, hm_producer** out);
/* Samples changed at random before they are put into batches. `options` is a JSON object with
 * "crop_padding", "flip", "noise", "mean", "deviation" (lists) and "seed"; an unknown key is an
 * error that lists the keys. */
int hm_producer_augment(const hm_producer* source, const char* options, hm_producer** out);
/* Every count-th of the samples, from the number `first` on. */
int hm_producer_stride(const hm_producer* source, int64_t first, int64_t count, hm_producer** out);
/* Samples in one epoch; -1 for an endless source. */
int hm_producer_samples(const hm_producer* producer, int64_t* out);
void hm_producer_free(hm_producer* producer);

/* Keeps all that is pushed to it. */
int hm_consumer_memory(hm_consumer** out);
/* All rows so far as one tensor named "rows". */
int hm_consumer_take(const hm_consumer* consumer, hm_tensors** out);
void hm_consumer_free(hm_consumer* consumer);

/* Engines. `settings` is a JSON object with the keys of a .harp file's train section ("lr",
 * "micro_batches", "seed", "threads" …), "deploy" (a list of backends, or of objects with backend,
 * device and weight), "secure", "secure_key" (a name), "secure_keys" (a folder), "secure_chain" (a
 * file), "secure_sets_aside" (renames a chain in the way that cannot be gone on with),
 * "secure_proofs" (the file of an int8 network, which the parts compute and prove; with "secure"),
 * and for remote ones "run", "token", "first_contact_s", "deadline_s". An unknown key is an error
 * that lists the keys. */
int hm_runtime_new(const hm_graph* graph, const char* settings, hm_engine** out);
int hm_distributed_new(const hm_graph* const* parts, size_t count, const char* settings,
                       hm_engine** out);
/* Endpoint URLs of the boundaries that enter and leave a part. */
typedef struct hm_endpoints {
  const char* const* producers;
  size_t producer_count;
  const char* const* consumers;
  size_t consumer_count;
} hm_endpoints;
int hm_remote_new(const hm_graph* part, const hm_endpoints* endpoints, const char* settings,
                  hm_engine** out);
int hm_engine_bind_producer(hm_engine* engine, const char* name, const hm_producer* producer);
int hm_engine_bind_consumer(hm_engine* engine, const char* name, const hm_consumer* consumer);
/* A boundary of a distributed engine over an end, which the engine takes over, also when it fails.
 */
int hm_engine_bind_end(hm_engine* engine, const char* boundary, int entering, hm_end* end);
/* Makes a distributed engine one of `ranks` replicas that learn together. `ends` lead to the
 * replicas in `peers` (those that hm_reduction_peers names) and are taken over, also when it fails.
 */
typedef struct hm_replicas {
  const char* order; /* "chain", "tree", "ring" */
  int32_t rank;
  int32_t ranks;
  const int32_t* peers;
  hm_end* const* ends;
  size_t count;
} hm_replicas;
int hm_engine_join_replicas(hm_engine* engine, const hm_replicas* replicas);
/* The replicas that `rank` talks to, in rising order; `out` has room for `ranks`. */
int hm_reduction_peers(const char* order, int32_t rank, int32_t ranks, int32_t* out, size_t* count);
/* One batch; the report as JSON. */
int hm_engine_step(hm_engine* engine, char** report);
/* How to fit. `options`: JSON with "checkpoint", "checkpoint_every", "metrics", all optional.
 * `on_step`, which may be null, is told of every step with its report as JSON; anything but 0 ends
 * the run after it. */
typedef struct hm_fit {
  int64_t epochs;
  const char* options;
  int (*on_step)(void* context, const char* report);
  void* context;
} hm_fit;
int hm_engine_fit(hm_engine* engine, const hm_fit* fit, char** report);
int hm_engine_infer(hm_engine* engine, const hm_tensor* inputs, size_t count, hm_tensors** out);
int hm_engine_save(const hm_engine* engine, const char* path);
int hm_engine_load(hm_engine* engine, const char* path);
/* A scheduler's way back to the newest checkpoint that all parts of the run have; *resumed is 0
 * when the run starts at the beginning. */
int hm_engine_resume(hm_engine* engine, const char* path, int* resumed);
/* Start weights from a safetensors file. */
int hm_engine_load_weights(hm_engine* engine, const char* path);
/* Parameters and buffers; they are copies. */
int hm_engine_parameters(const hm_engine* engine, hm_tensors** out);
int hm_engine_digest(const hm_engine* engine, char** digest);
/* {"epochs": those done, "batches": of the epoch under way} */
int hm_engine_progress(const hm_engine* engine, char** json);
/* Ends a fit after the step at hand, and every wait on ends that the engine took over at once, with
 * the code of "cancelled". Another thread may call it at the same time. */
int hm_engine_stop(hm_engine* engine);
/* Numbers, since the run began, of the first and the last step that was done in a fit; 0 before.
 * Another thread may call it at the same time. */
int hm_engine_steps(const hm_engine* engine, int64_t* first, int64_t* last);
/* What went over the ends that the engine took over, as JSON: {"ends": {kind: count}, "bytes_sent",
 * "socket_payload_sent" …}. */
int hm_engine_traffic(const hm_engine* engine, char** json);
/* Ends a secure run: its chain is whole, and no step may follow. */
int hm_engine_seal(hm_engine* engine);
/* What the parts here signed last, a line each; "" in a run that is not secure. */
int hm_engine_proof(const hm_engine* engine, char** lines);
void hm_engine_free(hm_engine* engine);

/* The sum of tensors over several processes or threads. The ends are taken over, also when it
 * fails; all ranks sum equally often, with the same names, shapes and step. */
int hm_reducer_new(const hm_replicas* replicas, hm_reducer** out);
int hm_reducer_sum(hm_reducer* reducer, const hm_tensor* tensors, size_t count, uint64_t step,
                   hm_tensors** out);
void hm_reducer_free(hm_reducer* reducer);

/* Boundaries. */
int hm_end_open(const char* url, const char* settings, hm_end** out);
/* A boundary inside this process: whoever asks for a name first and second get its two ends. */
int hm_bus_open(const char* name, hm_end** out);
int hm_end_send(hm_end* end, const hm_tensor* tensor, uint64_t step, int64_t timeout_ms);
/* The next tensor, named "tensor"; *out is null once the other end has closed. */
int hm_end_receive(hm_end* end, int64_t timeout_ms, uint64_t* step, hm_tensors** out);
int hm_end_close(hm_end* end, int64_t timeout_ms);
/* Counters as JSON. */
int hm_end_stats(const hm_end* end, char** json);
int hm_end_port(const hm_end* end, int32_t* port);
void hm_end_free(hm_end* end);

/* Sets of tensors as weights: their digest, and a safetensors file. */
int hm_weights_digest(const hm_tensor* tensors, size_t count, char** digest);
int hm_weights_save(const char* path, const hm_tensor* tensors, size_t count);
int hm_weights_load(const char* path, hm_tensors** out);

/* Tensors that came out. */
/* One tensor of unset values, in memory that is used again after hm_tensors_free. */
int hm_tensors_empty(const char* name, const char* dtype, const int64_t* shape, int32_t rank,
                     hm_tensors** out);
size_t hm_tensors_count(const hm_tensors* tensors);
/* A view that lives as long as `tensors`; an index past the end gives all zeros. */
hm_tensor hm_tensors_at(const hm_tensors* tensors, size_t index);
void hm_tensors_free(hm_tensors* tensors);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
