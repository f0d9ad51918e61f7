/* A source that pushes until its run is over: source SUPERVISOR SIGNAL. At the signal, if it is not
 * 0, the program asks for the end of the run; all other signals do what they do by default. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "evb.h"

static volatile sig_atomic_t is_asked = 0;

static void note(int number) {
    (void)number;
    is_asked = 1;
}

static int fail(const evb_error *error) {
    fprintf(stderr, "error %d: %s; %s\n", (int)error->code, error->reason, error->remedy);
    return 2;
}

int main(int count, char **arguments) {
    static const char payload[1000];
    evb_source_options options = {0};
    evb_source *source = NULL;
    evb_outcome outcome = {0};
    evb_error error;
    uint64_t event = 0;
    if (count != 3) {
        return 2;
    }
    if (atoi(arguments[2]) != 0) {
        signal(atoi(arguments[2]), note);
    }
    options.struct_size = sizeof options;
    options.supervisor = arguments[1];
    options.id = 2;
    options.max_fragment = sizeof payload;
    options.backlog = 100 * sizeof payload;
    if (evb_source_connect(&options, &source, &error) != EVB_OK ||
        evb_source_first_event(source, &event, &error) != EVB_OK) {
        return fail(&error);
    }
    for (;; ++event) {
        evb_code code;
        if (is_asked && evb_source_request_run_end(source, "a signal", &error) != EVB_OK) {
            return fail(&error);
        }
        code = evb_source_push(source, event, 0, payload, sizeof payload, &error);
        if (code == EVB_ENDED) {
            break;
        }
        if (code != EVB_OK) {
            return fail(&error);
        }
    }
    outcome.struct_size = sizeof outcome;
    if (evb_source_finished(source, EVB_FOREVER, &outcome, &error) != EVB_OK) {
        return fail(&error);
    }
    evb_source_free(source, NULL);
    return (int)outcome.exit_code;
}
