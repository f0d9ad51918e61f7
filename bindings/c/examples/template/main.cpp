// A readout program to begin with: two sources and a builder in one process.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <vector>

#include <evb.hpp>

int main(int count, char **arguments) try {
    evb::local_options options;
    options.sources = 2;
    options.events = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 10000;
    // The sink checks the content of each fragment; a wrong one makes its event count as lost.
    const auto sink = [](std::uint16_t) {
        return evb::any_sink::of([](const evb::event_view &event) {
            for (const evb::fragment_view fragment : event) {
                if (fragment.payload.read<std::uint64_t>(0) != event.id() * fragment.source) {
                    throw std::runtime_error("wrong data");
                }
            }
        });
    };
    auto system = evb::local_system::start(options, sink);
    auto first = system.source(1), second = system.source(2);
    for (std::uint64_t event = 1; event <= options.events; ++event) {
        const bool goes_on = first.push_owned(event, 0, std::vector<std::uint64_t>(128, event)) &&
                             second.push_owned(event, 0, std::vector<std::uint64_t>(128, event * 2));
        if (!goes_on) {
            break;
        }
    }
    const evb::ledger ledger = system.finished();
    std::printf("%llu events complete, %llu bytes\n", static_cast<unsigned long long>(ledger.complete),
                static_cast<unsigned long long>(ledger.payload_bytes));
    return ledger.complete == options.events ? 0 : 1;
} catch (const evb::error &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
}
