/* A readout program in C: two sources push to a builder in this process, and the sink checks each
 * event. In an experiment, evb_source_connect takes the place of evb_local_start.
 *
 *     readout [EVENTS]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evb.h"

enum { SOURCES = 2, SAMPLES = 256 };

/* State of the sink, which evb calls on a thread of its own. */
struct checker {
    uint64_t events;
};

/* The samples of a source for an event. */
static void read_hardware(uint16_t source, uint64_t event, uint16_t samples[SAMPLES]) {
    for (int i = 0; i < SAMPLES; ++i) {
        samples[i] = (uint16_t)(event * 31 + source * 7 + (uint64_t)i);
    }
}

static uint32_t check_event(void *user, const evb_event *event, char *reason) {
    struct checker *checker = user;
    for (uint16_t source = 1; source <= SOURCES; ++source) {
        uint16_t expected[SAMPLES];
        evb_fragment_view fragment;
        read_hardware(source, evb_event_id(event), expected);
        if (!evb_event_fragment_of(event, source, &fragment) || fragment.size != sizeof expected ||
            memcmp(fragment.data, expected, sizeof expected) != 0) {
            snprintf(reason, EVB_CALLBACK_REASON_SIZE, "source %u has wrong data", (unsigned)source);
            return EVB_SINK_LOST;
        }
    }
    checker->events += 1;
    return EVB_SINK_OK;
}

static int fail(const evb_error *error) {
    fprintf(stderr, "error %d: %s; %s\n", (int)error->code, error->reason, error->remedy);
    return 1;
}

int main(int count, char **arguments) {
    const uint64_t events = count > 1 ? strtoull(arguments[1], NULL, 10) : 10000;
    struct checker checker = {0};
    evb_error error;

    evb_sink_callbacks callbacks = {0};
    callbacks.struct_size = sizeof callbacks;
    callbacks.user = &checker;
    callbacks.write = check_event;
    evb_sink *sink = NULL;
    if (evb_sink_create(&callbacks, &sink, &error) != EVB_OK) {
        return fail(&error);
    }

    evb_local_options options = {0};
    options.struct_size = sizeof options;
    options.sources = SOURCES;
    options.builders = 1;
    options.events = events;
    evb_local *local = NULL;
    if (evb_local_start(&options, &sink, NULL, &local, &error) != EVB_OK) {
        return fail(&error);
    }

    evb_source *sources[SOURCES] = {NULL};
    for (uint16_t id = 1; id <= SOURCES; ++id) {
        if (evb_local_source(local, id, &sources[id - 1], &error) != EVB_OK) {
            return fail(&error);
        }
    }
    for (uint64_t event = 1; event <= events; ++event) {
        for (uint16_t id = 1; id <= SOURCES; ++id) {
            uint16_t samples[SAMPLES];
            read_hardware(id, event, samples);
            if (evb_source_push(sources[id - 1], event, event * 100, samples, sizeof samples, &error) != EVB_OK) {
                return fail(&error);
            }
        }
    }

    evb_ledger ledger = {0};
    ledger.struct_size = sizeof ledger;
    if (evb_local_finished(local, EVB_FOREVER, &ledger, &error) != EVB_OK) {
        return fail(&error);
    }
    for (int i = 0; i < SOURCES; ++i) {
        evb_source_free(sources[i], NULL);
    }
    evb_local_free(local, NULL);
    printf("%" PRIu64 " of %" PRIu64 " events complete, %" PRIu64 " checked\n", ledger.complete, events,
           checker.events);
    return ledger.complete == events && checker.events == events ? 0 : 1;
}
