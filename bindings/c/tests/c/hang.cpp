// Callbacks that never return: waits end at their time limit, abort works, and the process ends.
#include <atomic>
#include <chrono>
#include <thread>

#include "check.h"
#include "evb.hpp"

namespace {

using namespace std::chrono_literals;

[[noreturn]] void hang() {
    for (;;) {
        std::this_thread::sleep_for(1h);
    }
}

void sink_hangs() {
    evb::local_options options;
    options.events = 100;
    std::atomic<bool> is_called{false};
    auto system = evb::local_system::start(options, [&](std::uint16_t) {
        return evb::any_sink::of([&](const evb::event_view &) {
            is_called = true;
            hang();
        });
    });
    evb::source source = system.source(1);
    CHECK(source.push(1, 0, std::string("data")));
    CHECK(!system.finished(300ms).has_value() && is_called);
    // Other calls still work.
    CHECK(source.push(2, 0, std::string("data")));
    system.abort();
    while (source.push(3, 0, std::string("data"))) {
        std::this_thread::sleep_for(1ms);
    }
    try {
        static_cast<void>(source.finished());
        CHECK(!"the source was aborted");
    } catch (const evb::error &error) {
        CHECK(error.code() == EVB_ABORTED);
    }
}

void readout_hangs() {
    evb::local_options options;
    options.events = 100;
    std::atomic<bool> is_called{false};
    const auto readout = [&](std::uint16_t) {
        return [&](std::uint64_t) -> std::optional<evb::fragment> {
            is_called = true;
            hang();
        };
    };
    auto system =
        evb::local_system::start_on_demand(options, readout, [](std::uint16_t) { return evb::any_sink::null(); });
    CHECK(!system.finished(300ms).has_value() && is_called);
    system.abort();
    CHECK(!system.source(1).finished(100ms).has_value());
}

} // namespace

int main() try {
    sink_hangs();
    readout_hangs();
    std::puts("hang: all waits ended");
    return 0;
} catch (const std::exception &exception) {
    std::fprintf(stderr, "%s\n", exception.what());
    return 1;
}
