/* The C interface of evb, an event builder. Generated from bindings/c/src by cbindgen; do not edit.
 *
 * Rules for all functions:
 *
 * - A function that can fail returns an `evb_code`, and fills the `evb_error` that its last argument
 *   points to. That argument may be NULL.
 * - A handle (`evb_source *`, `evb_builder *`, `evb_local *`, `evb_sink *`) is an id in the form of a
 *   pointer. It has no memory that a program could read. A handle that has been freed, or that is of
 *   another kind, is refused with EVB_HANDLE. Freeing NULL does nothing.
 * - All functions may be called from any thread, and at the same time with the same handle, unless
 *   their description says otherwise.
 * - Other pointers must be NULL, where that is allowed, or valid during the call. Text is UTF-8 with
 *   a NUL at its end.
 * - evb calls the callbacks of a program on threads of its own. A callback must not throw a C++
 *   exception or jump out of evb: the process aborts. `evb.hpp` catches exceptions for C++ programs.
 * - After fork(), the child must not use evb: every function returns EVB_FORKED. It may call exec().
 */

#ifndef EVB_H
#define EVB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Version of the binary interface that this header describes.
#define EVB_ABI 0

// Size of `evb_error.reason` in bytes, with the NUL at its end.
#define EVB_REASON_SIZE 768

// Size of `evb_error.remedy` in bytes, with the NUL at its end.
#define EVB_REMEDY_SIZE 248

// The time limit that means none.
#define EVB_FOREVER UINT64_MAX

// Size of the array into which a callback may write its reason, in bytes, with the NUL at its end.
#define EVB_CALLBACK_REASON_SIZE 256

// Size of the text of a verdict in bytes, with the NUL at its end.
#define EVB_VERDICT_SIZE 512

// Result of a function.
enum evb_code
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // The function has done its work.
    EVB_OK = 0,
    // The backlog of the source has no room at this moment.
    EVB_FULL = 1,
    // The run is over, or the source has failed: `evb_source_finished` says which.
    EVB_ENDED = 2,
    // The time limit of a wait has passed.
    EVB_TIMED_OUT = 3,
    // An argument is wrong: a null pointer, a length, or a field of a struct.
    EVB_INVALID = 4,
    // A handle has been freed already, or it is of another kind.
    EVB_HANDLE = 5,
    // The source refuses a fragment.
    EVB_REFUSED = 6,
    // The supervisor cannot be reached, or it refuses this source or builder.
    EVB_JOIN = 7,
    // The address to listen on cannot be used.
    EVB_LISTEN = 8,
    // A peer broke the protocol.
    EVB_PROTOCOL = 9,
    // The connection to the supervisor is lost, and no new one could be opened in time.
    EVB_LOST = 10,
    // The sink could not begin, or it is gone.
    EVB_SINK = 11,
    // The readout callback failed for some events.
    EVB_READOUT = 12,
    // A builder needs more memory than it may use.
    EVB_MEMORY = 13,
    // The key file cannot be used.
    EVB_KEY = 14,
    // The plan of a run is contradictory.
    EVB_PLAN = 15,
    // The library was built without that ability.
    EVB_UNSUPPORTED = 16,
    // The operating system refused something.
    EVB_SYSTEM = 17,
    // The program aborted the source, the builder or the run.
    EVB_ABORTED = 18,
    // The process is a child that was forked after evb had been used.
    EVB_FORKED = 19,
    // A function that waits was called in a callback, where it could wait for ever.
    EVB_CALLBACK = 20,
    // A defect of evb. The handle can still be used and freed.
    EVB_INTERNAL = 21,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum evb_code evb_code;
#else
typedef uint32_t evb_code;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Side whose fault an error is.
enum evb_fault
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // There is no error.
    EVB_FAULT_NONE = 0,
    // A program at the other end of a connection.
    EVB_FAULT_PEER = 1,
    // The program that called the function.
    EVB_FAULT_CALLER = 2,
    // The person who configured the system.
    EVB_FAULT_OPERATOR = 3,
    // The operating system or the machine.
    EVB_FAULT_SYSTEM = 4,
    // evb itself.
    EVB_FAULT_EVB = 5,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum evb_fault evb_fault;
#else
typedef uint32_t evb_fault;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Transport of the lanes, which must be the same for all sources and builders of a run.
enum evb_transport
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // TCP.
    EVB_TCP = 0,
    // UDP.
    EVB_UDP = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum evb_transport evb_transport;
#else
typedef uint32_t evb_transport;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Kind of trigger of a system in this process.
enum evb_trigger
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Events whenever builders have free slots.
    EVB_TRIGGER_AS_FAST_AS_POSSIBLE = 0,
    // Events when the program calls `evb_local_trigger`.
    EVB_TRIGGER_EXTERNAL = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum evb_trigger evb_trigger;
#else
typedef uint32_t evb_trigger;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Answer of a sink callback.
enum evb_sink_answer
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // The call has done its work.
    EVB_SINK_OK = 0,
    // The sink will not accept the event later either. As the answer of `write`, this event is
    // lost; of `commit`, all events since the last commit; of `begin`, the builder ends. The
    // ledger names lost events with `reason`.
    EVB_SINK_LOST = 1,
    // The sink may accept the events later. The builder holds all events since the last commit and
    // offers them again; meanwhile, they occupy slots.
    EVB_SINK_PASSING = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum evb_sink_answer evb_sink_answer;
#else
typedef uint32_t evb_sink_answer;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Answer of a readout callback.
enum evb_readout_answer
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // There is no fragment: the event will lack this source.
    EVB_READOUT_NONE = 0,
    // `fragment` is filled, and evb takes it over.
    EVB_READOUT_FRAGMENT = 1,
    // Readout failed, and `reason` says why: the event will lack this source, and
    // `evb_source_finished` reports EVB_READOUT.
    EVB_READOUT_FAILED = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum evb_readout_answer evb_readout_answer;
#else
typedef uint32_t evb_readout_answer;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Reason why a source has no fragment in an event. A later version of evb may give other codes.
enum evb_cause
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // The cause is not known.
    EVB_CAUSE_UNKNOWN = 0,
    // The source was not connected to the supervisor or counted as down.
    EVB_CAUSE_DOWN = 1,
    // The source was up and did not announce a fragment until the event's deadline.
    EVB_CAUSE_SILENT = 2,
    // No readout delivered data to the source.
    EVB_CAUSE_NO_READOUT = 3,
    // The fragment reached evb, which could not take it.
    EVB_CAUSE_REFUSED = 4,
    // The fragment arrived with a wrong checksum.
    EVB_CAUSE_DAMAGED = 5,
    // The lane broke before the fragment had arrived.
    EVB_CAUSE_LOST_IN_NETWORK = 6,
    // The run ended before the fragment had arrived.
    EVB_CAUSE_GIVEN_UP = 7,
    // An operator excluded the source while the event waited for its fragment.
    EVB_CAUSE_RELEASED = 8,
    // Packets of the fragment were lost before they reached the source.
    EVB_CAUSE_LOST_PACKETS = 9,
    // An operator had excluded the source from the run.
    EVB_CAUSE_EXCLUDED = 16,
    // The source is expendable: events are complete without it.
    EVB_CAUSE_EXPENDABLE = 17,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum evb_cause evb_cause;
#else
typedef uint32_t evb_cause;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// State of a fragment that says whether it belongs to its event, by its timestamp.
enum evb_alignment
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // The timestamp was not compared: the source has no clock, or no other source has one.
    EVB_ALIGNMENT_UNCHECKED = 0,
    // The fragment belongs to the event.
    EVB_ALIGNMENT_AGREES = 1,
    // The fragment's time is not that of the event.
    EVB_ALIGNMENT_DISAGREES = 2,
    // The clock is still being learnt, or no clock is there to compare it with.
    EVB_ALIGNMENT_UNKNOWN = 3,
    // The fragment was built into another event, and a repair moved it to this one, to which it
    // belongs.
    EVB_ALIGNMENT_MOVED = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum evb_alignment evb_alignment;
#else
typedef uint32_t evb_alignment;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// A handle to a builder. The builder goes on to the end of its run, or until `evb_builder_abort`,
// even if the handle is freed.
typedef struct evb_builder evb_builder;

// A built event. Inside a sink callback, evb passes an event that is valid until the callback
// returns. `evb_event_keep` makes a handle of it that stays valid until `evb_event_free`.
typedef struct evb_event evb_event;

// A handle to a system in this process. The run goes on to its end, or until `evb_local_abort`,
// even if the handle is freed.
typedef struct evb_local evb_local;

// A sink that no builder has yet.
typedef struct evb_sink evb_sink;

// A handle to a source: it keeps each fragment until the event's builder has asked for it and the
// builder's sink has accepted the event. The source goes on to the end of its run, or until
// `evb_source_abort`, even if the handle is freed.
typedef struct evb_source evb_source;

// Identity of a run, which no other run has.
typedef struct evb_run_id {
    // Bytes in the order of the 32 hexadecimal digits.
    uint8_t bytes[16];
} evb_run_id;

// A fragment of a built event. The payload is valid as long as its event.
typedef struct evb_fragment_view {
    // The detector's own timestamp, in its ticks.
    uint64_t timestamp;
    // CRC-64/NVME of the payload, which the builder has checked.
    uint64_t checksum;
    // Payload bytes; never NULL.
    const void *data;
    // Number of payload bytes.
    size_t size;
    // Id of the source.
    uint16_t source;
    // Agreement of the timestamp with the others of the event: an `evb_alignment`.
    uint8_t alignment;
    // Number of packets of the fragment that were lost before they reached the source.
    uint32_t lost_packets;
} evb_fragment_view;

// Description of an error. The memory belongs to the caller, and evb keeps no pointer to it, so
// each thread can have its own. Long texts are cut off.
typedef struct evb_error {
    // The code that the function returned.
    evb_code code;
    // The side whose fault the error is.
    evb_fault fault;
    // The reason, as a sentence in English; empty if there is no error.
    char reason[EVB_REASON_SIZE];
    // The action that helps, as a sentence in English; empty if there is no error.
    char remedy[EVB_REMEDY_SIZE];
} evb_error;

// Facts about a run, for a sink. Valid during the callback.
typedef struct evb_run {
    // The run's epoch.
    uint64_t epoch;
    // Ids of the run's sources, ascending.
    const uint16_t *sources;
    // Number of sources.
    size_t source_count;
    // The run's number.
    uint32_t run;
    // Id of the builder that has the sink.
    uint16_t builder;
} evb_run;

// A sink made of callbacks. evb calls them on the sink's own thread, one at a time, so they may
// wait for a disk. Each returns an `evb_sink_answer`, and may write a reason of up to
// EVB_CALLBACK_REASON_SIZE bytes for an answer other than EVB_SINK_OK. All but `write` may be
// NULL.
typedef struct evb_sink_callbacks {
    // Size of the struct.
    size_t struct_size;
    // First argument of the callbacks. It must be usable on other threads.
    void *user;
    // Begins a run.
    uint32_t (*begin)(void *user, const struct evb_run *run, char *reason);
    // Takes one event, which is valid until the callback returns (see `evb_event_keep`).
    uint32_t (*write)(void *user, const struct evb_event *event, char *reason);
    // Makes all events since the last commit safe. Events are accepted when it has returned
    // EVB_SINK_OK: only then do the sources forget their fragments.
    uint32_t (*commit)(void *user, char *reason);
    // Closes the sink after the run.
    uint32_t (*close)(void *user, char *reason);
    // Frees `user`. Called exactly once, on any thread, after the last call of the others.
    void (*drop)(void *user);
} evb_sink_callbacks;

// Settings of event files. Set all fields to zero, then `struct_size` and `directory`, then what
// differs from the defaults.
typedef struct evb_file_options {
    // Size of the struct.
    size_t struct_size;
    // Directory of the files, which evb creates if necessary.
    const char *directory;
    // Largest size of a file in bytes; 0: 2 GiB.
    uint64_t rotate_at;
    // 0: accepted events survive a killed process; 1: they survive a power cut, because each
    // commit waits for the disk.
    uint32_t fsync;
    // Must be 0.
    uint32_t reserved;
} evb_file_options;

// Clock that boards read for the timestamps of fragments. All fields are zero if evb is not to
// compare the timestamps. Otherwise set `rate_hz`, and `bits` or `wrap`.
typedef struct evb_clock {
    // Nominal rate of the ticks in hertz; 0: no clock.
    double rate_hz;
    // Instead of `bits`, the number of ticks after which the clock reads zero again; 0: none.
    uint64_t wrap;
    // Largest deviation of a healthy timestamp from the time of its event, in ns; 0: 1000.
    uint64_t tolerance_ns;
    // Largest deviation of the rate in parts per million; 0: 100 ppm; below zero: none, for boards
    // on one common clock.
    double accuracy_ppm;
    // Number of bits of the timestamps, 1 to 64; 0: see `wrap`.
    uint32_t bits;
    // Must be 0.
    uint32_t reserved;
} evb_clock;

// Settings of a source. Set all fields to zero, then `struct_size`, `supervisor` and `id`, then
// what differs from the defaults.
typedef struct evb_source_options {
    // Size of the struct.
    size_t struct_size;
    // Address of the supervisor, `host:port`.
    const char *supervisor;
    // Path of the file with the key that all peers share; NULL: no key.
    const char *key_file;
    // Address of this host to send from, such as "10.0.0.7"; NULL: the routing table decides.
    const char *bind;
    // Largest payload of a fragment in bytes, by which builders reserve memory; 0: 4 MiB.
    uint64_t max_fragment;
    // Payload bytes that may wait for the decisions about their events; 0: 256 MiB.
    uint64_t backlog;
    // Time to reach the supervisor, in milliseconds; 0: 30 s.
    uint64_t start_timeout_ms;
    // Longest time that packets wait in full queues of the network, in nanoseconds; 0: unknown.
    uint64_t queue_delay_ns;
    // Size of the largest IP packet in bytes; 0: 1500.
    uint32_t mtu;
    // Transport of the lanes, an `evb_transport`.
    uint32_t transport;
    // Id of the source, from 1 to 65535, which the supervisor must expect.
    uint32_t id;
    // Must be 0.
    uint32_t reserved;
    // Clock of the timestamps, by which evb finds events whose fragments do not belong together.
    struct evb_clock clock;
} evb_source_options;

// Gives the memory of a payload back to its owner. Called exactly once for each fragment that evb
// took over, on any thread of evb, and perhaps before the function that took the fragment returns.
// It must not throw, and must not call a function of evb that waits.
typedef void (*evb_release)(void *owner);

// The data of one source for one event.
typedef struct evb_fragment {
    // Event id: the trigger number, from 1 without gaps.
    uint64_t event;
    // The detector's own timestamp, in its ticks. evb does not interpret it.
    uint64_t timestamp;
    // Payload bytes; may be NULL if `size` is 0.
    const void *data;
    // Number of payload bytes.
    size_t size;
    // NULL: evb copies the payload. Otherwise evb keeps the pointer, does not copy, and calls this
    // function with `owner` when no builder needs the payload any more. Until then the bytes must
    // not change.
    evb_release release;
    // Argument of `release`.
    void *owner;
} evb_fragment;

// Readout on demand. evb calls `fragment` on the thread of the source, for each event that is
// assigned to a builder and in the order of the assignments. While the callback runs, the source
// does nothing else: one that runs for seconds makes the supervisor declare the source down.
typedef struct evb_readout {
    // Size of the struct.
    size_t struct_size;
    // First argument of the callbacks. It must be usable on other threads.
    void *user;
    // Makes the fragment of `event`, and returns an `evb_readout_answer`. `fragment` is zeroed
    // except for its event id. `reason` has EVB_CALLBACK_REASON_SIZE bytes.
    uint32_t (*fragment)(void *user, uint64_t event, struct evb_fragment *fragment, char *reason);
    // Frees `user`; may be NULL. Called exactly once, on any thread, when evb has made its last
    // call of `fragment`.
    void (*drop)(void *user);
} evb_readout;

// The outcome of a run according to the supervisor's ledger, as a source or builder learns it.
typedef struct evb_outcome {
    // Size of the struct, which the caller sets.
    size_t struct_size;
    // The run's epoch.
    uint64_t epoch;
    // The run's number.
    uint32_t run;
    // 0: every event is complete and accounted for; 1: some are not, or the run failed.
    uint32_t exit_code;
    // The outcome as a sentence.
    char verdict[EVB_VERDICT_SIZE];
} evb_outcome;

// Settings of a builder. Set all fields to zero, then `struct_size`, `supervisor` and `id`, then
// what differs from the defaults.
typedef struct evb_builder_options {
    // Size of the struct.
    size_t struct_size;
    // Address of the supervisor, `host:port`.
    const char *supervisor;
    // Path of the file with the key that all peers share; NULL: no key.
    const char *key_file;
    // Address at which sources reach the builder, `host:port`; NULL: any port of loopback.
    const char *listen;
    // Limit of the payload memory in bytes; 0: none.
    uint64_t memory;
    // Time to reach the supervisor, in milliseconds; 0: 30 s.
    uint64_t start_timeout_ms;
    // Time for which a failing sink is tried again at the end of a run, in milliseconds; 0: 30 s.
    uint64_t give_up_ms;
    // Buffer of the switch port of this builder in bytes, which evb never fills beyond; 0: this is
    // a single machine. Needs `sources`.
    uint64_t port_buffer;
    // Rate of the switch port in bits per second; 0: unknown.
    uint64_t port_rate;
    // Number of sources of the run; needed with `port_buffer`.
    uint32_t sources;
    // Size of the largest IP packet in bytes; 0: 1500.
    uint32_t mtu;
    // Transport of the lanes, an `evb_transport`.
    uint32_t transport;
    // Id of the builder, from 1 to 65535, which the supervisor must expect.
    uint32_t id;
} evb_builder_options;

// Settings of a system in this process. Set all fields to zero, then `struct_size`, `sources` and
// `builders`, then what differs from the defaults.
typedef struct evb_local_options {
    // Size of the struct.
    size_t struct_size;
    // Number of events after which the run ends; 0: it ends when the program asks for it.
    uint64_t events;
    // Usual size of a fragment in bytes, from which the number of slots follows; 0: unknown.
    uint64_t fragment_size;
    // Largest payload of a fragment in bytes; 0: 4 MiB.
    uint64_t max_fragment;
    // Payload bytes that may wait for the decisions about their events; 0: 256 MiB.
    uint64_t backlog;
    // Number of sources; their ids are 1, 2, …
    uint32_t sources;
    // Number of builders; their ids are 1, 2, …
    uint32_t builders;
    // Kind of trigger, an `evb_trigger`.
    uint32_t trigger;
    // Transport of the lanes, an `evb_transport`.
    uint32_t transport;
} evb_local_options;

// The closed ledger of a run: triggered = inhibited + complete + incomplete + lost + rejected.
typedef struct evb_ledger {
    // Size of the struct, which the caller sets.
    size_t struct_size;
    // The run's epoch.
    uint64_t epoch;
    // Number of triggers.
    uint64_t triggered;
    // Triggers for which no builder had a free slot.
    uint64_t inhibited;
    // Events with a fragment of every source.
    uint64_t complete;
    // Events without the fragments of some sources.
    uint64_t incomplete;
    // Events that were assigned, but that no sink has accepted.
    uint64_t lost;
    // Events that a filter rejected.
    uint64_t rejected;
    // Payload bytes of the events that sinks accepted.
    uint64_t payload_bytes;
    // Time from the first possible trigger until the last event was settled, in seconds.
    double duration_s;
    // The run's number.
    uint32_t run;
    // 0: every event is complete and accounted for; 1: some are not, or the run failed.
    uint32_t exit_code;
    // The outcome as a sentence.
    char verdict[EVB_VERDICT_SIZE];
} evb_ledger;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the version of the library's binary interface. A program may compare it with EVB_ABI,
// the version of its header. Thread safety: any thread, at any time.
uint32_t evb_abi(void);

// Returns the version of evb, such as "0.1.0"; the text stays valid. Thread safety: any thread, at
// any time.
const char *evb_version(void);

// Returns the event id, which is the trigger number; 0 if `event` is no event. Thread safety: any
// thread, while the event is valid.
uint64_t evb_event_id(const struct evb_event *event);

// Returns the number of the event's run; 0 if `event` is no event. Thread safety: any thread,
// while the event is valid.
uint32_t evb_event_run(const struct evb_event *event);

// Fills `id` with the identity of the event's run. Returns false, and leaves `id` alone, if it is
// not known or `event` is no event. Thread safety: any thread, while the event is valid.
bool evb_event_run_id(const struct evb_event *event, struct evb_run_id *id);

// Returns the time of the event's trigger in nanoseconds since 1970-01-01 UTC, on the scale of the
// run, which does not depend on the builder; 0 if it is not known or `event` is no event. Thread
// safety: any thread, while the event is valid.
uint64_t evb_event_utc(const struct evb_event *event);

// Returns the epoch of the event's run; 0 if `event` is no event. Thread safety: any thread, while
// the event is valid.
uint64_t evb_event_epoch(const struct evb_event *event);

// Returns the id of the builder that built the event; 0 if `event` is no event. Thread safety: any
// thread, while the event is valid.
uint16_t evb_event_builder(const struct evb_event *event);

// Returns the number of payload bytes of all fragments. Thread safety: any thread, while the event
// is valid.
uint64_t evb_event_size(const struct evb_event *event);

// Returns the number of fragments. Thread safety: any thread, while the event is valid.
size_t evb_event_fragment_count(const struct evb_event *event);

// Fills `fragment` with the fragment at `index`, in the order of the source ids. Returns false,
// and leaves `fragment` alone, if the event has no such fragment. Thread safety: any thread, while
// the event is valid.
bool evb_event_fragment(const struct evb_event *event,
                        size_t index,
                        struct evb_fragment_view *fragment);

// Fills `fragment` with the fragment of the source with this id. Returns false, and leaves
// `fragment` alone, if the event has none from that source. Thread safety: any thread, while the
// event is valid.
bool evb_event_fragment_of(const struct evb_event *event,
                           uint16_t source,
                           struct evb_fragment_view *fragment);

// Returns the number of sources that owe the event a fragment and did not contribute one; 0 for a
// complete event. Thread safety: any thread, while the event is valid.
size_t evb_event_missing_count(const struct evb_event *event);

// Fills `source` with the id of the missing source at `index`. Returns false, and leaves `source`
// alone, if there is none. Thread safety: any thread, while the event is valid.
bool evb_event_missing(const struct evb_event *event, size_t index, uint16_t *source);

// Returns the cause of the missing source at `index`, an `evb_cause` or a code of a later version
// of evb; `EVB_CAUSE_UNKNOWN` if there is no such source. Thread safety: any thread, while the
// event is valid.
uint32_t evb_event_missing_cause(const struct evb_event *event, size_t index);

// Returns the number of sources that do not owe the event a fragment, because they are excluded or
// expendable, and did not contribute one. Thread safety: any thread, while the event is valid.
size_t evb_event_absent_count(const struct evb_event *event);

// Fills `source` with the id of the absent source at `index`. Returns false, and leaves `source`
// alone, if there is none. Thread safety: any thread, while the event is valid.
bool evb_event_absent(const struct evb_event *event, size_t index, uint16_t *source);

// Returns the cause of the absent source at `index`, an `evb_cause` or a code of a later version
// of evb; `EVB_CAUSE_UNKNOWN` if there is no such source. Thread safety: any thread, while the
// event is valid.
uint32_t evb_event_absent_cause(const struct evb_event *event, size_t index);

// Returns a cause in words, such as "silent until the deadline"; "of a later version" for a code
// that this version of evb does not know. The text is valid for ever. Thread safety: any thread.
const char *evb_cause_text(uint32_t cause);

// Keeps an event beyond the callback that got it: fills `kept` with a handle for the functions
// `evb_event_…`. The payload is not copied. A kept event occupies memory that the builder would
// use again, so free it soon with `evb_event_free`. Thread safety: any thread, while the event is
// valid.
evb_code evb_event_keep(const struct evb_event *event,
                        struct evb_event **kept,
                        struct evb_error *error);

// Frees an event that `evb_event_keep` returned. Thread safety: any thread. A call for the same
// event on another thread finishes first, or gets an event without content.
evb_code evb_event_free(struct evb_event *event, struct evb_error *error);

// Creates a sink that calls the program with each event. With EVB_OK, evb has taken `user` over,
// and calls `drop` exactly once. Thread safety: any thread.
evb_code evb_sink_create(const struct evb_sink_callbacks *callbacks,
                         struct evb_sink **sink,
                         struct evb_error *error);

// Creates a sink that writes event files, which `evb_file.hpp`, `evbd` and Python read. Thread
// safety: any thread.
evb_code evb_sink_create_files(const struct evb_file_options *options,
                               struct evb_sink **sink,
                               struct evb_error *error);

// Creates a sink that accepts every event and keeps none. Thread safety: any thread.
evb_code evb_sink_create_null(struct evb_sink **sink, struct evb_error *error);

// Frees a sink that no builder has taken. Thread safety: any thread.
evb_code evb_sink_free(struct evb_sink *sink, struct evb_error *error);

// Registers at the supervisor and starts a source on a thread of its own; waits until the
// supervisor has accepted the source, at most `start_timeout_ms`. The program pushes the
// fragments. Thread safety: any thread, except in a readout, release or drop callback.
evb_code evb_source_connect(const struct evb_source_options *options,
                            struct evb_source **source,
                            struct evb_error *error);

// Connects like `evb_source_connect`, with readout that makes each fragment when evb asks for it.
// evb takes `readout->user` over, whatever the function returns, and calls `drop` exactly once.
// Thread safety: any thread, except in a readout, release or drop callback.
evb_code evb_source_connect_on_demand(const struct evb_source_options *options,
                                      const struct evb_readout *readout,
                                      struct evb_source **source,
                                      struct evb_error *error);

// Fills `event` with the first event that the source has a part in: 1 in a new run, a later one in
// a run that was under way when the source joined. Thread safety: any thread.
evb_code evb_source_first_event(const struct evb_source *source,
                                uint64_t *event,
                                struct evb_error *error);

// Copies a payload and pushes it as the fragment of `event`; waits while the backlog is full,
// which is the back-pressure on readout. A fragment of an inhibited or closed event is no error:
// evb drops and counts it. Returns EVB_ENDED when the run is over. Thread safety: any number of
// threads may push into one source; not in a readout, release or drop callback.
evb_code evb_source_push(struct evb_source *source,
                         uint64_t event,
                         uint64_t timestamp,
                         const void *data,
                         size_t size,
                         struct evb_error *error);

// Pushes a fragment like `evb_source_push`, without copying its payload: `release` must be set.
// With EVB_OK, evb has taken the payload over, and calls `release` exactly once. Otherwise the
// payload stays with the caller. Thread safety: any number of threads may push into one source;
// not in a readout, release or drop callback.
evb_code evb_source_push_owned(struct evb_source *source,
                               const struct evb_fragment *fragment,
                               struct evb_error *error);

// Pushes a fragment if the backlog has room at this moment, else returns EVB_FULL. With EVB_OK,
// evb has taken the fragment over; otherwise it stays with the caller. Thread safety: any thread,
// also in callbacks.
evb_code evb_source_try_push(struct evb_source *source,
                             const struct evb_fragment *fragment,
                             struct evb_error *error);

// Pushes `count` fragments in their order, each copied or taken over as its `release` says; waits
// while the backlog is full. Many small fragments cost much less than by single calls. Fills
// `pushed`, which may be NULL, with the number of fragments that evb has taken over: the first
// ones. After an error, the others stay with the caller, and the first of them is the cause.
// Thread safety: any number of threads may push into one source; not in a readout, release or drop
// callback.
evb_code evb_source_push_many(struct evb_source *source,
                              const struct evb_fragment *fragments,
                              size_t count,
                              size_t *pushed,
                              struct evb_error *error);

// Asks the supervisor to end the run: it takes no more triggers, and every event under way is
// built or named in the ledger. `cause` is a text for the log. Thread safety: any thread, also in
// callbacks.
evb_code evb_source_request_run_end(struct evb_source *source,
                                    const char *cause,
                                    struct evb_error *error);

// Waits until the run is over, at most `timeout_ms` milliseconds or EVB_FOREVER, and fills
// `outcome`, which may be NULL. Thread safety: any number of threads may wait; not in a callback.
evb_code evb_source_finished(const struct evb_source *source,
                             uint64_t timeout_ms,
                             struct evb_outcome *outcome,
                             struct evb_error *error);

// Ends the source at once, as if its process were killed: events that lack its fragments are
// incomplete. Calls that wait return EVB_ENDED or EVB_ABORTED. A readout callback that runs is not
// interrupted: the source ends when it returns. Thread safety: any thread, also in callbacks.
evb_code evb_source_abort(struct evb_source *source, struct evb_error *error);

// Frees a handle; the source goes on. Thread safety: any thread. Calls with the same handle on
// other threads end as they would without this call.
evb_code evb_source_free(struct evb_source *source, struct evb_error *error);

// Listens for sources, registers at the supervisor, and builds every event into `sink`, on threads
// of its own; waits until the supervisor has accepted the builder, at most `start_timeout_ms`. The
// handle `sink` is used up, whatever the function returns. Thread safety: any thread, except in a
// readout, release or drop callback.
evb_code evb_builder_connect(const struct evb_builder_options *options,
                             struct evb_sink *sink,
                             struct evb_builder **builder,
                             struct evb_error *error);

// Fills `address` with the address at which the builder listens, such as "127.0.0.1:40123", cut
// off at `size` bytes with the NUL. Thread safety: any thread.
evb_code evb_builder_address(const struct evb_builder *builder,
                             char *address,
                             size_t size,
                             struct evb_error *error);

// Asks the supervisor to end the run: it takes no more triggers, and every event under way is
// built or named in the ledger. `cause` is a text for the log. Thread safety: any thread, also in
// callbacks.
evb_code evb_builder_request_run_end(struct evb_builder *builder,
                                     const char *cause,
                                     struct evb_error *error);

// Waits until the run is over, at most `timeout_ms` milliseconds or EVB_FOREVER, and fills
// `outcome`, which may be NULL. Then the sink has accepted every event, or the ledger names it.
// Thread safety: any number of threads may wait; not in a callback.
evb_code evb_builder_finished(const struct evb_builder *builder,
                              uint64_t timeout_ms,
                              struct evb_outcome *outcome,
                              struct evb_error *error);

// Ends the builder at once, as if its process were killed. Events that its sink has not accepted
// go to other builders. A sink callback that runs is not interrupted. Thread safety: any thread,
// also in callbacks.
evb_code evb_builder_abort(struct evb_builder *builder, struct evb_error *error);

// Frees a handle; the builder goes on. Thread safety: any thread. Calls with the same handle on
// other threads end as they would without this call.
evb_code evb_builder_free(struct evb_builder *builder, struct evb_error *error);

// Starts a system whose sources, builders and supervisor are threads of this process, and waits
// until all have joined.
//
// `sinks` has one sink for each builder; NULL stands for sinks that accept everything. The handles
// are used up, whatever the function returns. `readouts` has one readout for each source, which
// evb takes over whatever the function returns; NULL means that the program pushes. Thread safety:
// any thread, except in a readout, release or drop callback.
evb_code evb_local_start(const struct evb_local_options *options,
                         struct evb_sink *const *sinks,
                         const struct evb_readout *readouts,
                         struct evb_local **local,
                         struct evb_error *error);

// Fills `source` with a new handle to the source with this id, which the program frees. Thread
// safety: any thread.
evb_code evb_local_source(const struct evb_local *local,
                          uint16_t id,
                          struct evb_source **source,
                          struct evb_error *error);

// Fills `address` with the address of the supervisor, such as "127.0.0.1:40123", cut off at `size`
// bytes with the NUL. Thread safety: any thread.
evb_code evb_local_address(const struct evb_local *local,
                           char *address,
                           size_t size,
                           struct evb_error *error);

// Reports `count` external triggers that happened now. The run ignores them unless its trigger is
// EVB_TRIGGER_EXTERNAL. Thread safety: any thread, except in a readout, release or drop callback.
evb_code evb_local_trigger(struct evb_local *local, uint64_t count, struct evb_error *error);

// Ends the run: it takes no more triggers, and every event under way is built or named in the
// ledger. `cause` is a text for the ledger. Thread safety: any thread, except in a readout,
// release or drop callback.
evb_code evb_local_request_run_end(struct evb_local *local,
                                   const char *cause,
                                   struct evb_error *error);

// Waits until the ledger is closed and every sink has closed, at most `timeout_ms` milliseconds or
// EVB_FOREVER, and fills `ledger`, which may be NULL. Thread safety: any number of threads may
// wait; not in a callback.
evb_code evb_local_finished(const struct evb_local *local,
                            uint64_t timeout_ms,
                            struct evb_ledger *ledger,
                            struct evb_error *error);

// Ends all roles at once, as if the process were killed. Callbacks that run are not interrupted.
// Thread safety: any thread, also in callbacks.
evb_code evb_local_abort(struct evb_local *local, struct evb_error *error);

// Frees a handle; the run goes on. Thread safety: any thread. Calls with the same handle on other
// threads end as they would without this call.
evb_code evb_local_free(struct evb_local *local, struct evb_error *error);

#if defined(EVB_PROVOKE)
// Makes each following call of another function panic, or no longer.
void evb_provoke(bool on);
#endif

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* EVB_H */
