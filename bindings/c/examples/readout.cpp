// A readout program in C++: it pushes the fragments of one source to a supervisor, for example to evbd,
// until the run is over. The payloads are vectors, which evb takes over without a copy.
//
//     readout HOST:PORT SOURCE_ID
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <evb.hpp>

namespace {

// Stands for the hardware.
std::vector<std::uint16_t> read_hardware(std::uint64_t event) {
    return std::vector<std::uint16_t>(256, static_cast<std::uint16_t>(event));
}

} // namespace

int main(int count, char **arguments) try {
    if (count != 3) {
        std::fputs("usage: readout HOST:PORT SOURCE_ID\n", stderr);
        return 2;
    }
    evb::source_options options;
    options.supervisor = arguments[1];
    options.id = static_cast<std::uint16_t>(std::strtoul(arguments[2], nullptr, 10));
    evb::source source = evb::source::connect(options);
    const std::uint64_t first = source.first_event();
    std::uint64_t event = first;
    while (source.push_owned(event, event * 100, read_hardware(event))) {
        ++event;
    }
    const evb::outcome outcome = source.finished();
    std::printf("%s\n", outcome.verdict.c_str());
    return static_cast<int>(outcome.exit_code);
} catch (const evb::error &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
}
