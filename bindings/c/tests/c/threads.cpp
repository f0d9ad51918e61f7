// Ten threads push into one source; handles are freed in any order; callbacks throw. The payloads are
// checked at the sink, and every object that evb took over is destroyed exactly once.
//
//     threads [EVENTS]
#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "evb.hpp"
#include "order.h"

namespace {

std::uint64_t events = 1000;
constexpr unsigned threads = 10;

// Number of payloads that exist.
std::atomic<int> alive{0};

// A payload that counts itself.
class counted {
public:
    counted(std::uint64_t event, std::size_t size) : bytes_(size, static_cast<unsigned char>(event)) { note(); }
    counted(counted &&other) noexcept : bytes_(std::move(other.bytes_)) { note(); }
    counted &operator=(counted &&other) noexcept = default;
    ~counted() {
        // A readout thread wrote the bytes, and evb destroys them on another thread.
        order_after(&alive);
        --alive;
    }
    const unsigned char *data() const noexcept { return bytes_.data(); }
    std::size_t size() const noexcept { return bytes_.size(); }

private:
    void note() noexcept {
        ++alive;
        order_before(&alive);
    }

    std::vector<unsigned char> bytes_;
};

void check(const evb::event_view &event) {
    for (const evb::fragment_view fragment : event) {
        // The sources have no clocks.
        if (fragment.alignment != evb::alignment_state::unchecked || !event.is_aligned()) {
            throw std::runtime_error("wrong state of alignment");
        }
        order_handed(fragment.payload.data(), fragment.payload.size());
        for (const std::byte byte : fragment.payload) {
            if (byte != static_cast<std::byte>(event.id())) {
                throw std::runtime_error("wrong data");
            }
        }
    }
}

void push_by_ten_threads() {
    evb::local_options options;
    options.events = events;
    options.backlog = 1 << 20;
    auto system = evb::local_system::start(
        options, [](std::uint16_t) { return evb::any_sink::of([](const evb::event_view &event) { check(event); }); });
    evb::source source = system.source(1);
    std::atomic<std::uint64_t> next{1};
    order_atomic(&next);
    std::vector<std::thread> all;
    for (unsigned index = 0; index < threads; ++index) {
        all.emplace_back([&, index] {
            evb::batch batch;
            for (std::uint64_t event = next++; event <= events; event = next++) {
                const std::size_t size = 100 + event % 20000;
                counted payload(event, size);
                if (index % 3 == 0) {
                    CHECK(source.push(event, event, payload));
                } else if (index % 3 == 1) {
                    CHECK(source.push_owned(event, event, std::move(payload)));
                } else {
                    batch.own(event, event, std::move(payload));
                    CHECK(source.push_many(batch) && batch.empty());
                }
            }
        });
    }
    for (std::thread &thread : all) {
        thread.join();
    }
    const evb::ledger ledger = system.finished();
    CHECK(ledger.complete == events && ledger.exit_code == 0);
    CHECK(!source.push(events + 1, 0, std::string("late")));
    // A payload that evb does not take stays with the caller.
    std::string kept(100000, 'x');
    CHECK(!source.push_owned(events + 1, 0, std::move(kept)));
    CHECK(kept.size() == 100000);
}

// Frees the handles of a run in each order: the run goes on without them.
void free_in_any_order() {
    std::vector<int> order{0, 1, 2, 3};
    do {
        evb::local_options options;
        options.events = 3;
        std::optional<evb::local_system> system = evb::local_system::start(
            options, [](std::uint16_t) { return evb::any_sink::of([](const evb::event_view &event) { check(event); }); });
        std::optional<evb::source> one = system->source(1), other = system->source(1);
        evb::source last = system->source(1);
        for (const int which : order) {
            switch (which) {
            case 0: system.reset(); break;
            case 1: one.reset(); break;
            case 2: other.reset(); break;
            default: CHECK(last.push_owned(1, 0, counted(1, 100)) && last.push_owned(2, 0, counted(2, 100)));
            }
        }
        CHECK(last.push_owned(3, 0, counted(3, 100)));
        CHECK(last.finished().exit_code == 0);
    } while (std::next_permutation(order.begin(), order.end()));
}

// A sink that fails in each way.
class throwing_sink final : public evb::sink {
public:
    throwing_sink() { ++alive; }
    ~throwing_sink() override { --alive; }
    void write(const evb::event_view &event) override {
        if (event.id() == 2) {
            throw std::runtime_error("event 2 is cursed");
        }
        if (event.id() == 3) {
            throw 3;
        }
        if (event.id() == 4 && !is_full_) {
            is_full_ = true;
            throw evb::passing("the disk is full");
        }
    }
    void close() override { throw std::logic_error("nobody hears this"); }

private:
    bool is_full_ = false;
};

void callbacks_throw() {
    evb::local_options options;
    options.events = 6;
    const auto readout = [](std::uint16_t) {
        return [](std::uint64_t event) -> std::optional<evb::fragment> {
            if (event == 5) {
                throw std::runtime_error("the card does not answer");
            }
            return evb::fragment::own(event, 0, std::vector<unsigned char>(10, 0));
        };
    };
    auto system = evb::local_system::start_on_demand(
        options, readout, [](std::uint16_t) { return evb::any_sink(std::make_unique<throwing_sink>()); });
    try {
        static_cast<void>(system.finished());
        CHECK(!"the failed readout is an error");
    } catch (const evb::error &error) {
        CHECK(error.code() == EVB_READOUT && error.fault() == EVB_FAULT_CALLER);
        CHECK(error.reason().find("event 5") != std::string::npos);
        CHECK(error.reason().find("the card does not answer") != std::string::npos);
    }
    evb_ledger ledger{};
    ledger.struct_size = sizeof ledger;
    CHECK(evb_local_finished(system.raw(), EVB_FOREVER, &ledger, nullptr) == EVB_READOUT);
    CHECK(ledger.lost == 2 && ledger.complete == 3 && ledger.incomplete == 1);
}

// A sink callback must not wait for the run that waits for it.
void callback_waits() {
    evb::local_options options;
    options.events = 1;
    std::atomic<evb_code> code{EVB_OK};
    std::atomic<const evb_source *> handle{nullptr};
    order_atomic(&code);
    order_atomic(&handle);
    auto system = evb::local_system::start(options, [&](std::uint16_t) {
        return evb::any_sink::of([&](const evb::event_view &) {
            code = evb_source_finished(handle, EVB_FOREVER, nullptr, nullptr);
        });
    });
    evb::source source = system.source(1);
    handle = source.raw();
    CHECK(source.push(1, 0, std::string("data")));
    CHECK(system.finished().complete == 1);
    CHECK(code == EVB_CALLBACK);
}

} // namespace

int main(int count, char **arguments) try {
    if (count > 1) {
        events = std::strtoull(arguments[1], nullptr, 10);
    }
    order_atomic(&alive);
    push_by_ten_threads();
    free_in_any_order();
    callbacks_throw();
    callback_waits();
    // evb destroys the last objects on threads of its own, shortly after the end of the run.
    for (int tries = 0; alive != 0 && tries < 500; ++tries) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    CHECK(alive == 0);
    std::puts("threads: all payloads are whole, and freed once");
    return 0;
} catch (const std::exception &exception) {
    std::fprintf(stderr, "%s\n", exception.what());
    return 1;
}
