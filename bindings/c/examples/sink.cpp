// A builder with a sink of its own in C++: it checks every event, keeps each hundredth for another
// thread, and counts them when they are safe. Sources make their fragments on demand.
//
//     sink [EVENTS]
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <evb.hpp>

namespace {

constexpr std::uint16_t sources = 3;
constexpr std::size_t samples = 512;

std::uint32_t sample(std::uint16_t source, std::uint64_t event, std::size_t index) {
    return static_cast<std::uint32_t>(event * 31 + source * 7u + index);
}

// Results of the sinks, for the main thread.
struct results {
    std::atomic<std::uint64_t> safe{0};
    std::mutex mutex;
    std::vector<evb::kept_event> kept;
};

class checking_sink final : public evb::sink {
public:
    explicit checking_sink(results &into) : into_(into) {}

    void begin(const evb::run_facts &run) override {
        if (run.sources.size() != sources) {
            throw std::runtime_error("the run has other sources");
        }
    }

    void write(const evb::event_view &event) override {
        for (const evb::fragment_view fragment : event) {
            if (fragment.payload.size() != samples * sizeof(std::uint32_t)) {
                throw std::runtime_error("source " + std::to_string(fragment.source) + " has another size");
            }
            for (std::size_t index = 0; index < samples; ++index) {
                const auto value = fragment.payload.read<std::uint32_t>(index * sizeof(std::uint32_t));
                if (value != sample(fragment.source, event.id(), index)) {
                    throw std::runtime_error("source " + std::to_string(fragment.source) + " has wrong data");
                }
            }
        }
        if (event.id() % 100 == 0) {
            const std::lock_guard<std::mutex> lock(into_.mutex);
            into_.kept.push_back(event.keep());
        }
        ++pending_;
    }

    void commit() override {
        into_.safe += pending_;
        pending_ = 0;
    }

private:
    results &into_;
    std::uint64_t pending_ = 0;
};

} // namespace

int main(int count, char **arguments) try {
    evb::local_options options;
    options.sources = sources;
    options.builders = 2;
    options.events = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 10000;
    results found;
    const auto readout = [](std::uint16_t source) {
        return [source](std::uint64_t event) -> std::optional<evb::fragment> {
            std::vector<std::uint32_t> data(samples);
            for (std::size_t index = 0; index < samples; ++index) {
                data[index] = sample(source, event, index);
            }
            return evb::fragment::own(event, event * 100, std::move(data));
        };
    };
    const auto sink = [&found](std::uint16_t) {
        return evb::any_sink(std::make_unique<checking_sink>(found));
    };
    auto system = evb::local_system::start_on_demand(options, readout, sink);
    const evb::ledger ledger = system.finished();
    for (const evb::kept_event &event : found.kept) {
        if (event.view().id() % 100 != 0 || event.view().fragment_count() != sources) {
            throw std::runtime_error("a kept event has changed");
        }
    }
    std::printf("%llu of %llu events complete, %llu safe, %zu kept\n",
                static_cast<unsigned long long>(ledger.complete),
                static_cast<unsigned long long>(options.events),
                static_cast<unsigned long long>(found.safe.load()), found.kept.size());
    const bool is_good = ledger.complete == options.events && found.safe == options.events;
    return is_good ? 0 : 1;
} catch (const std::exception &exception) {
    std::fprintf(stderr, "error: %s\n", exception.what());
    return 1;
}
