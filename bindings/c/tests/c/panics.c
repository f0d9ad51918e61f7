/* Makes each function of evb panic, and checks that the panic becomes an error. Prints the name of
 * each function, so that the test compares them with the symbols of the library. Needs a library
 * with the feature `provoke`. */
#include <string.h>

#include "check.h"
#include "evb.h"

static uint32_t write_event(void *user, const evb_event *event, char *reason) {
    (void)user, (void)event, (void)reason;
    return EVB_SINK_OK;
}

static unsigned dropped;

static void drop(void *user) {
    (void)user;
    ++dropped;
}

static uint32_t make(void *user, uint64_t event, evb_fragment *fragment, char *reason) {
    (void)user, (void)event, (void)fragment, (void)reason;
    return EVB_READOUT_NONE;
}

static evb_error error;

static void panicked(const char *name, evb_code code) {
    puts(name);
    CHECK(code == EVB_INTERNAL && error.code == EVB_INTERNAL && error.fault == EVB_FAULT_EVB);
    CHECK(strstr(error.reason, name) != NULL && strstr(error.reason, "provoked") != NULL);
    CHECK(error.remedy[0] != '\0');
    memset(&error, 0, sizeof error);
}

/* Calls a function that returns a code, with a place for the error and without. */
#define PANICS(function, ...)                                                                      \
    do {                                                                                           \
        panicked(#function, function(__VA_ARGS__, &error));                                        \
        CHECK(function(__VA_ARGS__, NULL) == EVB_INTERNAL);                                        \
    } while (0)

#define GIVES(function, value, ...)                                                                \
    do {                                                                                           \
        puts(#function);                                                                           \
        CHECK(function(__VA_ARGS__) == (value));                                                   \
    } while (0)

static void source_functions(evb_source *source) {
    const char byte = 1;
    const evb_fragment fragment = {1, 0, &byte, 1, NULL, NULL};
    const evb_source_options options = {.struct_size = sizeof options, .supervisor = "127.0.0.1:1", .id = 1};
    const evb_readout readout = {sizeof readout, NULL, make, drop};
    evb_source *made = NULL;
    uint64_t first = 0;
    size_t pushed = 7;
    evb_outcome outcome = {.struct_size = sizeof outcome};
    PANICS(evb_source_connect, &options, &made);
    PANICS(evb_source_connect_on_demand, &options, &readout, &made);
    PANICS(evb_source_first_event, source, &first);
    PANICS(evb_source_push, source, 1, 0, &byte, 1);
    PANICS(evb_source_push_owned, source, &fragment);
    PANICS(evb_source_try_push, source, &fragment);
    PANICS(evb_source_push_many, source, &fragment, 1, &pushed);
    CHECK(pushed == 0);
    PANICS(evb_source_request_run_end, source, "end");
    PANICS(evb_source_finished, source, 0, &outcome);
    PANICS(evb_source_abort, source);
    PANICS(evb_source_free, source);
    CHECK(made == NULL && dropped == 0);
}

static void builder_functions(evb_builder *builder, evb_sink *sink) {
    char address[64];
    const evb_builder_options options = {.struct_size = sizeof options, .supervisor = "127.0.0.1:1", .id = 1};
    evb_outcome outcome = {.struct_size = sizeof outcome};
    evb_builder *made = NULL;
    PANICS(evb_builder_connect, &options, sink, &made);
    PANICS(evb_builder_address, builder, address, sizeof address);
    PANICS(evb_builder_request_run_end, builder, "end");
    PANICS(evb_builder_finished, builder, 0, &outcome);
    PANICS(evb_builder_abort, builder);
    PANICS(evb_builder_free, builder);
    CHECK(made == NULL);
}

static void local_functions(evb_local *local, evb_sink *sink) {
    char address[64];
    const evb_local_options options = {.struct_size = sizeof options, .sources = 1, .builders = 1};
    evb_ledger ledger = {.struct_size = sizeof ledger};
    evb_local *made = NULL;
    evb_source *source = NULL;
    PANICS(evb_local_start, &options, &sink, NULL, &made);
    PANICS(evb_local_source, local, 1, &source);
    PANICS(evb_local_address, local, address, sizeof address);
    PANICS(evb_local_trigger, local, 1);
    PANICS(evb_local_request_run_end, local, "end");
    PANICS(evb_local_finished, local, 0, &ledger);
    PANICS(evb_local_abort, local);
    PANICS(evb_local_free, local);
    CHECK(made == NULL && source == NULL);
}

static void sink_and_event_functions(evb_sink *sink) {
    const evb_sink_callbacks callbacks = {.struct_size = sizeof callbacks, .write = write_event, .drop = drop};
    const evb_file_options files = {.struct_size = sizeof files, .directory = "."};
    evb_sink *made = NULL;
    evb_event *kept = NULL;
    evb_fragment_view fragment;
    uint16_t source = 0;
    evb_run_id id;
    PANICS(evb_sink_create, &callbacks, &made);
    PANICS(evb_sink_create_files, &files, &made);
    PANICS(evb_sink_create_null, &made);
    PANICS(evb_sink_free, sink);
    CHECK(made == NULL && dropped == 0);
    PANICS(evb_event_keep, NULL, &kept);
    PANICS(evb_event_free, NULL);
    GIVES(evb_event_id, 0, NULL);
    GIVES(evb_event_run, 0, NULL);
    GIVES(evb_event_epoch, 0, NULL);
    GIVES(evb_event_builder, 0, NULL);
    GIVES(evb_event_size, 0, NULL);
    GIVES(evb_event_fragment_count, 0, NULL);
    GIVES(evb_event_fragment, false, NULL, 0, &fragment);
    GIVES(evb_event_fragment_of, false, NULL, 1, &fragment);
    GIVES(evb_event_missing_count, 0, NULL);
    GIVES(evb_event_missing, false, NULL, 0, &source);
    GIVES(evb_event_missing_cause, EVB_CAUSE_UNKNOWN, NULL, 0);
    GIVES(evb_event_absent_count, 0, NULL);
    GIVES(evb_event_absent, false, NULL, 0, &source);
    GIVES(evb_event_absent_cause, EVB_CAUSE_UNKNOWN, NULL, 0);
    GIVES(evb_event_run_id, false, NULL, &id);
    GIVES(evb_event_utc, 0, NULL);
    puts("evb_cause_text");
    CHECK(strcmp(evb_cause_text(EVB_CAUSE_DOWN), "") == 0);
    puts("evb_abi");
    CHECK(evb_abi() == UINT32_MAX);
    puts("evb_version");
    CHECK(strcmp(evb_version(), "") == 0);
}

int main(void) {
    evb_local *local = NULL;
    evb_source *source = NULL;
    evb_builder *builder = NULL;
    evb_sink *sink = NULL;
    evb_local_options options = {.struct_size = sizeof options, .sources = 1, .builders = 1, .events = 1};
    CHECK(evb_local_start(&options, NULL, NULL, &local, &error) == EVB_OK);
    CHECK(evb_local_source(local, 1, &source, &error) == EVB_OK);
    CHECK(evb_sink_create_null(&sink, &error) == EVB_OK);

    evb_provoke(true);
    source_functions(source);
    builder_functions(builder, sink);
    local_functions(local, sink);
    sink_and_event_functions(sink);
    evb_provoke(false);
    puts("evb_provoke");

    /* The handles still work. */
    CHECK(evb_source_push(source, 1, 0, "data", 4, &error) == EVB_OK);
    evb_ledger ledger = {.struct_size = sizeof ledger};
    CHECK(evb_local_finished(local, EVB_FOREVER, &ledger, &error) == EVB_OK && ledger.complete == 1);
    CHECK(evb_source_free(source, &error) == EVB_OK && evb_local_free(local, &error) == EVB_OK);
    CHECK(evb_sink_free(sink, &error) == EVB_OK);
    return 0;
}
