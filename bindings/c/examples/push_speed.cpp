// The C++ half of `cargo xtask eco c-speed`; see push_speed.rs.
//
//     push_speed owned|many FRAGMENT_BYTES EVENTS
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "evb.hpp"

namespace {

constexpr std::uint32_t each = 4;
constexpr std::uint64_t together = 256;

using memory = std::shared_ptr<const std::vector<unsigned char>>;

// A payload that shares the detector's memory, so that no time is spent on its allocation.
class shared_payload {
public:
    explicit shared_payload(memory data) : data_(std::move(data)) {}
    const unsigned char *data() const noexcept { return data_->data(); }
    std::size_t size() const noexcept { return data_->size(); }

private:
    memory data_;
};

bool push_owned(evb::source &source, const memory &data, std::uint64_t events) {
    for (std::uint64_t event = 1; event <= events; ++event) {
        if (!source.push_owned(event, event, shared_payload(data))) {
            return false;
        }
    }
    return true;
}

bool push_many(evb::source &source, const memory &data, std::uint64_t events) {
    evb::batch fragments;
    for (std::uint64_t event = 1; event <= events; ++event) {
        fragments.copy(event, event, *data);
        if ((event % together == 0 || event == events) && !source.push_many(fragments)) {
            return false;
        }
    }
    return true;
}

} // namespace

int main(int count, char **arguments) try {
    if (count != 4) {
        std::fputs("usage: push_speed owned|many BYTES EVENTS\n", stderr);
        return 2;
    }
    const auto push = std::string(arguments[1]) == "owned" ? push_owned : push_many;
    evb::local_options options;
    options.sources = options.builders = each;
    options.fragment_size = std::strtoull(arguments[2], nullptr, 10);
    options.events = std::strtoull(arguments[3], nullptr, 10);
    auto system = evb::local_system::start(options, [](std::uint16_t) { return evb::any_sink::null(); });
    std::vector<std::thread> threads;
    for (std::uint16_t id = 1; id <= each; ++id) {
        threads.emplace_back([&, source = system.source(id)]() mutable {
            const auto data = std::make_shared<const std::vector<unsigned char>>(options.fragment_size, 0x5a);
            if (!push(source, data, options.events)) {
                std::fputs("the run ended early\n", stderr);
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    const evb::ledger ledger = system.finished();
    if (ledger.complete != options.events) {
        std::fprintf(stderr, "%s\n", ledger.verdict.c_str());
        return 1;
    }
    std::printf("%.1f\n", static_cast<double>(ledger.payload_bytes) / ledger.duration_s / 1e6);
    return 0;
} catch (const std::exception &exception) {
    std::fprintf(stderr, "%s\n", exception.what());
    return 1;
}
