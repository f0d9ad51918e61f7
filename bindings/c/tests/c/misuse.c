/* Wrong arguments, handles that were freed, a failed connection, and a forked child: all get errors. */
#define _POSIX_C_SOURCE 200809L
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "evb.h"

static evb_error error;

static void refused(evb_code code, evb_code expected, evb_fault fault, const char *words) {
    if (code != expected || error.code != code || error.fault != fault || !strstr(error.reason, words)) {
        fprintf(stderr, "code %d, fault %d: %s\n", (int)code, (int)error.fault, error.reason);
        exit(1);
    }
    CHECK(error.remedy[0] != '\0');
}

#define REFUSED(code, words, call) refused((call), code, EVB_FAULT_CALLER, words)

static evb_local *start(uint64_t events) {
    evb_local *local = NULL;
    evb_local_options options = {.struct_size = sizeof options, .sources = 1, .builders = 1, .events = events};
    options.max_fragment = 1000;
    CHECK(evb_local_start(&options, NULL, NULL, &local, &error) == EVB_OK);
    CHECK(error.code == EVB_OK && error.reason[0] == '\0');
    return local;
}

static unsigned released;

static void release(void *owner) {
    (void)owner;
    ++released;
}

static void fragments(evb_source *source) {
    /* evb uses the memory of owned payloads until it releases them. */
    static char data[2000];
    evb_fragment fragment = {1, 0, data, 10, release, NULL};
    REFUSED(EVB_INVALID, "NULL", evb_source_push(source, 1, 0, NULL, 1, &error));
    REFUSED(EVB_REFUSED, "max_fragment", evb_source_push(source, 1, 0, data, 2000, &error));
    REFUSED(EVB_REFUSED, "max_fragment", evb_source_push(source, 1, 0, data, SIZE_MAX, &error));
    REFUSED(EVB_REFUSED, "start at 1", evb_source_push(source, 0, 0, data, 10, &error));
    REFUSED(EVB_REFUSED, "ahead", evb_source_push(source, UINT64_MAX, 0, data, 10, &error));
    REFUSED(EVB_INVALID, "fragment", evb_source_push_owned(source, NULL, &error));
    fragment.release = NULL;
    REFUSED(EVB_INVALID, "release", evb_source_push_owned(source, &fragment, &error));
    fragment.release = release;
    fragment.event = 0;
    REFUSED(EVB_REFUSED, "start at 1", evb_source_push_owned(source, &fragment, &error));
    REFUSED(EVB_REFUSED, "start at 1", evb_source_try_push(source, &fragment, &error));
    size_t pushed = 9;
    evb_fragment three[3] = {{1, 0, data, 10, release, NULL}, {0, 0, data, 10, release, NULL}, {2, 0, data, 10, release, NULL}};
    REFUSED(EVB_REFUSED, "start at 1", evb_source_push_many(source, three, 3, &pushed, &error));
    CHECK(pushed == 1);
    pushed = 9;
    REFUSED(EVB_INVALID, "NULL", evb_source_push_many(source, NULL, 3, &pushed, &error));
    REFUSED(EVB_INVALID, "more fragments", evb_source_push_many(source, three, SIZE_MAX / 2, &pushed, &error));
    CHECK(pushed == 0);
    CHECK(evb_source_push_many(source, NULL, 0, NULL, &error) == EVB_OK);
}

static void handles(evb_local *local, evb_source *source) {
    uint64_t first;
    evb_source *other = NULL;
    REFUSED(EVB_INVALID, "NULL", evb_source_first_event(NULL, &first, &error));
    REFUSED(EVB_HANDLE, "is not one that evb returned", evb_source_first_event((evb_source *)&first, &first, &error));
    REFUSED(EVB_HANDLE, "handle to a local", evb_source_first_event((evb_source *)local, &first, &error));
    REFUSED(EVB_HANDLE, "handle to a source", evb_local_free((evb_local *)source, &error));
    CHECK(evb_local_source(local, 1, &other, &error) == EVB_OK && other != source);
    CHECK(evb_source_free(other, &error) == EVB_OK);
    REFUSED(EVB_HANDLE, "freed already", evb_source_free(other, &error));
    REFUSED(EVB_HANDLE, "freed already", evb_source_push(other, 1, 0, "x", 1, &error));
    REFUSED(EVB_INVALID, "no source", evb_local_source(local, 0, &other, &error));
    REFUSED(EVB_INVALID, "no source", evb_local_source(local, 2, &other, &error));
    CHECK(evb_source_free(NULL, &error) == EVB_OK && evb_event_free(NULL, NULL) == EVB_OK);
    CHECK(evb_event_id(NULL) == 0 && evb_event_id((const evb_event *)source) == 0);
}

static void structs(evb_source *source) {
    struct {
        evb_local_options known;
        uint64_t new_field;
    } newer = {{.struct_size = sizeof newer, .sources = 1, .builders = 1}, 1};
    evb_local *local = NULL;
    REFUSED(EVB_INVALID, "does not have", evb_local_start(&newer.known, NULL, NULL, &local, &error));
    newer.known.struct_size = 0;
    REFUSED(EVB_INVALID, "struct_size", evb_local_start(&newer.known, NULL, NULL, &local, &error));
    newer.known.struct_size = sizeof newer.known;
    newer.known.transport = 7;
    REFUSED(EVB_INVALID, "transport", evb_local_start(&newer.known, NULL, NULL, &local, &error));
    newer.known.transport = EVB_TCP;
    newer.known.sources = 0;
    REFUSED(EVB_PLAN, "no source", evb_local_start(&newer.known, NULL, NULL, &local, &error));
    newer.known.sources = 70000;
    REFUSED(EVB_INVALID, "sources", evb_local_start(&newer.known, NULL, NULL, &local, &error));
    evb_outcome outcome = {.struct_size = 3};
    REFUSED(EVB_INVALID, "struct_size", evb_source_finished(source, 0, &outcome, &error));
    REFUSED(EVB_TIMED_OUT, "10 ms", evb_source_finished(source, 10, NULL, &error));
    evb_sink_callbacks callbacks = {.struct_size = sizeof callbacks};
    evb_sink *sink = NULL;
    REFUSED(EVB_INVALID, "write", evb_sink_create(&callbacks, &sink, &error));
    REFUSED(EVB_INVALID, "sink", evb_sink_create_null(NULL, &error));
    CHECK(local == NULL && sink == NULL);
}

static void connections(void) {
    evb_source_options options = {.struct_size = sizeof options, .id = 1, .start_timeout_ms = 200};
    evb_source *source = NULL;
    REFUSED(EVB_INVALID, "supervisor", evb_source_connect(&options, &source, &error));
    options.supervisor = "127.0.0.1";
    refused(evb_source_connect(&options, &source, &error), EVB_JOIN, EVB_FAULT_OPERATOR, "host:port");
    options.supervisor = "127.0.0.1:1";
    refused(evb_source_connect(&options, &source, &error), EVB_JOIN, EVB_FAULT_PEER, "cannot be reached");
    options.id = 0;
    REFUSED(EVB_INVALID, "id", evb_source_connect(&options, &source, &error));
    options.id = 1;
    options.key_file = "/there/is/no/key";
    refused(evb_source_connect(&options, &source, &error), EVB_KEY, EVB_FAULT_OPERATOR, "key file");
    evb_builder_options own = {.struct_size = sizeof own, .id = 1, .supervisor = "127.0.0.1:1"};
    own.listen = "192.0.2.1:7100";
    own.start_timeout_ms = 200; /* for as long it tries to tell the supervisor */
    evb_sink *sink = NULL;
    evb_builder *builder = NULL;
    CHECK(evb_sink_create_null(&sink, &error) == EVB_OK);
    refused(evb_builder_connect(&own, sink, &builder, &error), EVB_LISTEN, EVB_FAULT_OPERATOR, "192.0.2.1");
    REFUSED(EVB_HANDLE, "freed already", evb_sink_free(sink, &error));
    CHECK(source == NULL && builder == NULL);
}

/* A child must not use evb, and must not hang. */
static void fork_one(evb_local *local, evb_source *source) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        evb_local *own = NULL;
        evb_local_options options = {.struct_size = sizeof options, .sources = 1, .builders = 1};
        REFUSED(EVB_FORKED, "forked", evb_source_push(source, 2, 0, "x", 1, &error));
        REFUSED(EVB_FORKED, "forked", evb_source_finished(source, EVB_FOREVER, NULL, &error));
        REFUSED(EVB_FORKED, "forked", evb_local_start(&options, NULL, NULL, &own, &error));
        REFUSED(EVB_FORKED, "forked", evb_source_free(source, &error));
        REFUSED(EVB_FORKED, "forked", evb_local_free(local, &error));
        /* The child may become another program. */
        execlp("true", "true", (char *)NULL);
        _exit(1);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
    CHECK(evb_abi() == EVB_ABI && strlen(evb_version()) >= 5);
    evb_local *local = start(2);
    evb_source *source = NULL;
    CHECK(evb_local_source(local, 1, &source, &error) == EVB_OK);
    handles(local, source);
    fragments(source);
    structs(source);
    connections();
    fork_one(local, source);
    CHECK(evb_source_push(source, 2, 0, "x", 1, &error) == EVB_OK);
    evb_ledger ledger = {.struct_size = sizeof ledger};
    CHECK(evb_local_finished(local, EVB_FOREVER, &ledger, &error) == EVB_OK);
    CHECK(ledger.complete == 2 && ledger.exit_code == 0 && ledger.payload_bytes == 11);
    CHECK(evb_source_push(source, 3, 0, "x", 1, &error) == EVB_ENDED);
    CHECK(evb_source_free(source, &error) == EVB_OK && evb_local_free(local, &error) == EVB_OK);
    /* One payload was taken, so one was released. */
    CHECK(released == 1);
    puts("misuse: all refused");
    return 0;
}
