// The C++ interface of evb, an event builder: a wrapper of evb.h for C++17 and later.
//
// - Handles are movable and not copyable. Destroying one frees the handle and changes nothing else:
//   the role goes on to the end of its run. Wait with `finished` before `main` returns.
// - A function that fails throws `evb::error`, which says whose fault it is and what helps. Two results
//   are no errors: the run is over (`push` returns false), and a time limit has passed.
// - The functions of `source`, `builder` and `local_system` may be called from any thread, and at the
//   same time with the same object, except its move and its destruction. A `batch` and a `fragment`
//   belong to one thread at a time.
// - Callbacks may throw: the wrapper catches every exception and turns it into an error of evb.
#ifndef EVB_HPP
#define EVB_HPP

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "evb.h"

#if __cplusplus >= 202002L
#include <span>
#endif

namespace evb {

// An error of evb.
class error : public std::runtime_error {
public:
    explicit error(const evb_error &raw)
        : std::runtime_error(std::string(raw.reason) + "; " + raw.remedy), code_(raw.code),
          fault_(raw.fault), reason_(raw.reason), remedy_(raw.remedy) {}

    evb_code code() const noexcept { return code_; }
    // The side whose fault the error is.
    evb_fault fault() const noexcept { return fault_; }
    // The reason, as a sentence.
    const std::string &reason() const noexcept { return reason_; }
    // The action that helps, as a sentence.
    const std::string &remedy() const noexcept { return remedy_; }

private:
    evb_code code_;
    evb_fault fault_;
    std::string reason_;
    std::string remedy_;
};

// Thrown by a sink that may accept its events later, for example when the disk has room again. The
// builder holds the events and offers them again. Any other exception loses events.
class passing : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

// A view of bytes in the memory of somebody else.
class bytes_view {
public:
    constexpr bytes_view() noexcept = default;
    bytes_view(const void *data, std::size_t size) noexcept
        : data_(static_cast<const std::byte *>(data)), size_(size) {}

    // Views the elements of a contiguous container, such as a vector, an array or a string.
    template <class Container,
              class Element = std::remove_pointer_t<decltype(std::data(std::declval<const Container &>()))>,
              class = std::enable_if_t<std::is_trivially_copyable_v<Element>>>
    bytes_view(const Container &container) noexcept
        : bytes_view(std::data(container), std::size(container) * sizeof(Element)) {}

    const std::byte *data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    bool empty() const noexcept { return size_ == 0; }
    const std::byte *begin() const noexcept { return data_; }
    const std::byte *end() const noexcept { return data_ + size_; }
    std::byte operator[](std::size_t index) const noexcept { return data_[index]; }
    std::string_view text() const noexcept {
        return {reinterpret_cast<const char *>(data_), size_};
    }

    // Returns a copy of the value whose bytes begin at `offset`. Throws std::out_of_range if the view
    // ends before.
    template <class T> T read(std::size_t offset) const {
        static_assert(std::is_trivially_copyable_v<T>, "only such types consist of their bytes");
        if (offset > size_ || size_ - offset < sizeof(T)) {
            throw std::out_of_range("evb: a value was read beyond the end of the payload: read no more than `size()` bytes of a fragment");
        }
        T value;
        std::memcpy(&value, data_ + offset, sizeof(T));
        return value;
    }

#if __cplusplus >= 202002L
    operator std::span<const std::byte>() const noexcept { return {data_, size_}; }
#endif

private:
    const std::byte *data_ = nullptr;
    std::size_t size_ = 0;
};

namespace detail {

inline void check(evb_code code, const evb_error &raw) {
    if (code != EVB_OK) {
        throw error(raw);
    }
}

// Calls a function of evb.h with a place for its error, and throws the error.
template <class Function, class... Arguments>
void call(Function function, Arguments &&...arguments) {
    evb_error raw;
    check(function(std::forward<Arguments>(arguments)..., &raw), raw);
}

// Calls a function that pushes. Returns false if the run is over.
template <class Function, class... Arguments>
bool pushes(Function function, Arguments &&...arguments) {
    evb_error raw;
    const evb_code code = function(std::forward<Arguments>(arguments)..., &raw);
    if (code == EVB_ENDED) {
        return false;
    }
    check(code, raw);
    return true;
}

template <class T, evb_code (*Free)(T *, evb_error *)> struct freed {
    void operator()(T *handle) const noexcept { Free(handle, nullptr); }
};

template <class T, evb_code (*Free)(T *, evb_error *)> using handle = std::unique_ptr<T, freed<T, Free>>;

// Makes a handle by a function whose last but one argument is the place for it.
template <class Handle, class Function, class... Arguments>
Handle made(Function function, Arguments &&...arguments) {
    typename Handle::pointer raw = nullptr;
    call(function, std::forward<Arguments>(arguments)..., &raw);
    return Handle(raw);
}

// Waits by a function of evb.h. Returns nothing if the time limit passes.
template <class Result, class Raw, class Function, class Handle>
std::optional<Result> waited(Function function, Handle *handle, std::uint64_t limit_ms) {
    Raw raw{};
    raw.struct_size = sizeof raw;
    evb_error failure;
    const evb_code code = function(handle, limit_ms, &raw, &failure);
    if (code == EVB_TIMED_OUT) {
        return std::nullopt;
    }
    check(code, failure);
    return Result(raw);
}

inline std::uint64_t milliseconds(std::chrono::milliseconds limit) noexcept {
    return limit.count() < 0 ? 0 : static_cast<std::uint64_t>(limit.count());
}

inline const char *or_null(const std::string &text) noexcept {
    return text.empty() ? nullptr : text.c_str();
}

inline void write_reason(char *reason, const char *text) noexcept {
    std::strncpy(reason, text, EVB_CALLBACK_REASON_SIZE - 1);
}

// Runs a part of a callback. Returns `done`, or `failed` with a reason if the part throws.
template <class Part>
std::uint32_t answered(char *reason, std::uint32_t done, std::uint32_t failed, Part part) noexcept {
    try {
        part();
        return done;
    } catch (const passing &exception) {
        write_reason(reason, exception.what());
        return failed == EVB_SINK_LOST ? static_cast<std::uint32_t>(EVB_SINK_PASSING) : failed;
    } catch (const std::exception &exception) {
        write_reason(reason, exception.what());
    } catch (...) {
        write_reason(reason, "the callback threw something that is no std::exception");
    }
    return failed;
}

template <class T> void delete_as(void *owner) noexcept { delete static_cast<T *>(owner); }

// Moves a container to the heap, and describes it as the payload of a fragment.
template <class Container>
evb_fragment owned(std::uint64_t event, std::uint64_t timestamp, Container &&payload) {
    static_assert(!std::is_reference_v<Container> && !std::is_const_v<Container>,
                  "evb takes the payload over: pass std::move(payload)");
    static_assert(!std::is_trivially_copyable_v<Container>, "evb cannot take over a view, which owns nothing");
    auto holder = std::make_unique<Container>(std::move(payload));
    const bytes_view bytes(*holder);
    return {event, timestamp, bytes.data(), bytes.size(), delete_as<Container>, holder.release()};
}

} // namespace detail

// The data of a source for one event. It refers to bytes that evb copies when the fragment is pushed,
// or it owns a container that evb takes over without a copy.
class fragment {
public:
    // Refers to bytes, which must stay valid until the fragment is pushed.
    static fragment copy(std::uint64_t event, std::uint64_t timestamp, bytes_view payload) noexcept {
        return fragment({event, timestamp, payload.data(), payload.size(), nullptr, nullptr});
    }

    // Takes a container over, such as a vector or a string.
    template <class Container>
    static fragment own(std::uint64_t event, std::uint64_t timestamp, Container &&payload) {
        return fragment(detail::owned(event, timestamp, std::forward<Container>(payload)));
    }

    fragment(fragment &&other) noexcept : raw_(other.take()) {}
    fragment &operator=(fragment &&other) noexcept {
        if (this != &other) {
            drop();
            raw_ = other.take();
        }
        return *this;
    }
    fragment(const fragment &) = delete;
    fragment &operator=(const fragment &) = delete;
    ~fragment() { drop(); }

    std::uint64_t event() const noexcept { return raw_.event; }
    std::uint64_t timestamp() const noexcept { return raw_.timestamp; }
    bytes_view payload() const noexcept { return {raw_.data, raw_.size}; }

    // Returns the fragment as evb.h has it, and gives up what it owns: evb, or the caller, takes it.
    evb_fragment take() noexcept {
        const evb_fragment taken = raw_;
        raw_ = {};
        return taken;
    }
    const evb_fragment &raw() const noexcept { return raw_; }

private:
    explicit fragment(const evb_fragment &raw) noexcept : raw_(raw) {}
    void drop() noexcept {
        if (raw_.release != nullptr) {
            raw_.release(raw_.owner);
        }
    }

    evb_fragment raw_;
};

// Fragments that are pushed together. A batch keeps its memory, so use one for the whole run.
class batch {
public:
    batch() = default;
    batch(batch &&other) noexcept : fragments_(std::exchange(other.fragments_, {})) {}
    batch &operator=(batch &&other) noexcept {
        std::swap(fragments_, other.fragments_);
        return *this;
    }
    batch(const batch &) = delete;
    batch &operator=(const batch &) = delete;
    ~batch() { clear(); }

    // Adds bytes that evb copies when the batch is pushed; they must stay valid until then.
    void copy(std::uint64_t event, std::uint64_t timestamp, bytes_view payload) {
        fragments_.push_back({event, timestamp, payload.data(), payload.size(), nullptr, nullptr});
    }

    // Adds a container, which evb takes over without a copy.
    template <class Container> void own(std::uint64_t event, std::uint64_t timestamp, Container &&payload) {
        add(fragment::own(event, timestamp, std::forward<Container>(payload)));
    }

    void add(fragment &&one) {
        fragments_.push_back(one.raw());
        one.take();
    }

    std::size_t size() const noexcept { return fragments_.size(); }
    bool empty() const noexcept { return fragments_.empty(); }
    void clear() noexcept { remove(0, true); }

private:
    friend class source;

    // Removes the fragments that evb has taken, or frees all.
    void remove(std::size_t taken, bool all) noexcept {
        const auto end = fragments_.begin() + static_cast<std::ptrdiff_t>(taken);
        if (all) {
            for (auto one = end; one != fragments_.end(); ++one) {
                if (one->release != nullptr) {
                    one->release(one->owner);
                }
            }
            fragments_.clear();
        } else {
            fragments_.erase(fragments_.begin(), end);
        }
    }

    std::vector<evb_fragment> fragments_;
};

// Whether a fragment belongs to its event, by its timestamp.
enum class alignment_state : std::uint8_t {
    // The timestamp was not compared: the source has no clock, or no other source has one.
    unchecked = EVB_ALIGNMENT_UNCHECKED,
    // The fragment belongs to the event.
    agrees = EVB_ALIGNMENT_AGREES,
    // The fragment's time is not that of the event.
    disagrees = EVB_ALIGNMENT_DISAGREES,
    // The clock is still being learnt, or no clock is there to compare it with.
    unknown = EVB_ALIGNMENT_UNKNOWN,
    // The fragment was built into another event, and a repair moved it to this one, to which it
    // belongs.
    moved = EVB_ALIGNMENT_MOVED,
};

// A fragment of a built event. The payload is valid as long as its event.
struct fragment_view {
    std::uint16_t source = 0;
    // The detector's own timestamp, in its ticks.
    std::uint64_t timestamp = 0;
    // CRC-64/NVME of the payload, which the builder has checked.
    std::uint64_t checksum = 0;
    bytes_view payload;
    // Whether the fragment belongs to the event.
    alignment_state alignment = alignment_state::unchecked;
    // Number of packets of the fragment that were lost before they reached the source.
    std::uint32_t lost_packets = 0;

    fragment_view() noexcept = default;
    explicit fragment_view(const evb_fragment_view &raw) noexcept
        : source(raw.source), timestamp(raw.timestamp), checksum(raw.checksum), payload(raw.data, raw.size),
          alignment(static_cast<alignment_state>(raw.alignment)), lost_packets(raw.lost_packets) {}
};

class kept_event;

// The reason why a source has no fragment in an event. A later version of evb may give other codes.
enum class cause : std::uint32_t {
    unknown = EVB_CAUSE_UNKNOWN,
    // The source was not connected to the supervisor or counted as down.
    down = EVB_CAUSE_DOWN,
    // The source was up and did not announce a fragment until the event's deadline.
    silent = EVB_CAUSE_SILENT,
    // No readout delivered data to the source.
    no_readout = EVB_CAUSE_NO_READOUT,
    // The fragment reached evb, which could not take it.
    refused = EVB_CAUSE_REFUSED,
    // The fragment arrived with a wrong checksum.
    damaged = EVB_CAUSE_DAMAGED,
    // The lane broke before the fragment had arrived.
    lost_in_network = EVB_CAUSE_LOST_IN_NETWORK,
    // The run ended before the fragment had arrived.
    given_up = EVB_CAUSE_GIVEN_UP,
    // An operator excluded the source while the event waited for its fragment.
    released = EVB_CAUSE_RELEASED,
    // Packets of the fragment were lost before they reached the source.
    lost_packets = EVB_CAUSE_LOST_PACKETS,
    // An operator had excluded the source from the run.
    excluded = EVB_CAUSE_EXCLUDED,
    // The source is expendable: events are complete without it.
    expendable = EVB_CAUSE_EXPENDABLE,
};

// Returns a cause in words, such as "silent until the deadline".
inline const char *to_string(cause why) noexcept { return evb_cause_text(static_cast<std::uint32_t>(why)); }

// A source that has no fragment in an event, and the cause.
struct missing_source {
    std::uint16_t source = 0;
    cause why = cause::unknown;
};

// A built event, valid until the callback of the sink returns.
class event_view {
public:
    explicit event_view(const evb_event *raw) noexcept : raw_(raw) {}

    // The event id, which is the trigger number.
    std::uint64_t id() const noexcept { return evb_event_id(raw_); }
    std::uint32_t run() const noexcept { return evb_event_run(raw_); }
    std::uint64_t epoch() const noexcept { return evb_event_epoch(raw_); }
    std::uint16_t builder() const noexcept { return evb_event_builder(raw_); }
    // The identity of the run, if it is known: its bytes in the order of the hexadecimal digits.
    std::optional<std::array<std::uint8_t, 16>> run_id() const noexcept {
        evb_run_id found;
        if (!evb_event_run_id(raw_, &found)) {
            return std::nullopt;
        }
        std::array<std::uint8_t, 16> id;
        std::copy(std::begin(found.bytes), std::end(found.bytes), id.begin());
        return id;
    }
    // The time of the trigger in nanoseconds since 1970-01-01 UTC, on the scale of the run; 0 if it is
    // not known.
    std::uint64_t utc() const noexcept { return evb_event_utc(raw_); }
    // True if every source that owes the event a fragment contributed one.
    bool is_complete() const noexcept { return evb_event_missing_count(raw_) == 0; }
    // True if every source of the run contributed, and no fragment lost packets.
    bool is_whole() const noexcept {
        evb_fragment_view found;
        for (std::size_t index = 0; evb_event_fragment(raw_, index, &found); ++index) {
            if (found.lost_packets > 0) {
                return false;
            }
        }
        return is_complete() && evb_event_absent_count(raw_) == 0;
    }
    // True if no fragment is known to belong to another event.
    bool is_aligned() const noexcept {
        evb_fragment_view found;
        for (std::size_t index = 0; evb_event_fragment(raw_, index, &found); ++index) {
            if (found.alignment == EVB_ALIGNMENT_DISAGREES) {
                return false;
            }
        }
        return true;
    }
    // Payload bytes of all fragments.
    std::uint64_t size() const noexcept { return evb_event_size(raw_); }

    std::size_t fragment_count() const noexcept { return evb_event_fragment_count(raw_); }
    // The fragment at an index, in the order of the source ids. Throws std::out_of_range.
    fragment_view fragment(std::size_t index) const {
        evb_fragment_view found;
        if (!evb_event_fragment(raw_, index, &found)) {
            throw std::out_of_range("evb: the event has no fragment at that index");
        }
        return fragment_view(found);
    }
    // The fragment of a source, if the event has one.
    std::optional<fragment_view> fragment_of(std::uint16_t source) const noexcept {
        evb_fragment_view found;
        if (!evb_event_fragment_of(raw_, source, &found)) {
            return std::nullopt;
        }
        return fragment_view(found);
    }

    // An iterator over the fragments.
    class iterator {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = fragment_view;
        using difference_type = std::ptrdiff_t;
        using pointer = void;
        using reference = fragment_view;

        iterator(const event_view *event, std::size_t index) noexcept : event_(event), index_(index) {}
        fragment_view operator*() const { return event_->fragment(index_); }
        iterator &operator++() noexcept {
            ++index_;
            return *this;
        }
        iterator operator++(int) noexcept {
            const iterator before = *this;
            ++index_;
            return before;
        }
        bool operator==(const iterator &other) const noexcept { return index_ == other.index_; }
        bool operator!=(const iterator &other) const noexcept { return index_ != other.index_; }

    private:
        const event_view *event_;
        std::size_t index_;
    };
    iterator begin() const noexcept { return {this, 0}; }
    iterator end() const noexcept { return {this, fragment_count()}; }

    // Sources that owe the event a fragment and did not contribute one.
    std::vector<missing_source> missing() const {
        std::vector<missing_source> missing(evb_event_missing_count(raw_));
        for (std::size_t index = 0; index < missing.size(); ++index) {
            evb_event_missing(raw_, index, &missing[index].source);
            missing[index].why = static_cast<cause>(evb_event_missing_cause(raw_, index));
        }
        return missing;
    }
    // Sources that do not owe the event a fragment, because they are excluded or expendable, and did
    // not contribute one.
    std::vector<missing_source> absent() const {
        std::vector<missing_source> absent(evb_event_absent_count(raw_));
        for (std::size_t index = 0; index < absent.size(); ++index) {
            evb_event_absent(raw_, index, &absent[index].source);
            absent[index].why = static_cast<cause>(evb_event_absent_cause(raw_, index));
        }
        return absent;
    }

    // Keeps the event beyond the callback. The payload is not copied.
    kept_event keep() const;
    const evb_event *raw() const noexcept { return raw_; }

private:
    const evb_event *raw_;
};

// An event that outlives the callback of its sink. It occupies memory of the builder, so drop it soon.
class kept_event {
public:
    event_view view() const noexcept { return event_view(handle_.get()); }

private:
    friend class event_view;
    explicit kept_event(detail::handle<evb_event, evb_event_free> handle) noexcept
        : handle_(std::move(handle)) {}
    detail::handle<evb_event, evb_event_free> handle_;
};

inline kept_event event_view::keep() const {
    return kept_event(detail::made<detail::handle<evb_event, evb_event_free>>(evb_event_keep, raw_));
}

// Facts about a run, for a sink.
struct run_facts {
    std::uint32_t run = 0;
    std::uint64_t epoch = 0;
    std::uint16_t builder = 0;
    std::vector<std::uint16_t> sources;
};

// The destination of a builder's events. evb calls it on a thread of its own, one function at a time.
// An event is accepted when `commit` has returned: only then do the sources forget their fragments.
//
// `evb::passing` as an exception holds the events since the last commit, and costs time. Any other
// exception loses the event (`write`) or all events since the last commit (`commit`), or ends the
// builder (`begin`). The ledger has the text of the exception.
class sink {
public:
    sink() = default;
    sink(const sink &) = delete;
    sink &operator=(const sink &) = delete;
    virtual ~sink() = default;

    // Begins a run.
    virtual void begin(const run_facts &) {}
    // Takes one event, which is valid until the function returns (see `event_view::keep`).
    virtual void write(const event_view &event) = 0;
    // Makes all events since the last commit safe.
    virtual void commit() {}
    // Closes the sink after the run.
    virtual void close() {}
};

namespace detail {

inline sink &sink_of(void *user) noexcept { return *static_cast<sink *>(user); }

inline std::uint32_t sink_begin(void *user, const evb_run *run, char *reason) noexcept {
    return answered(reason, EVB_SINK_OK, EVB_SINK_LOST, [&] {
        run_facts facts;
        facts.run = run->run;
        facts.epoch = run->epoch;
        facts.builder = run->builder;
        facts.sources.assign(run->sources, run->sources + run->source_count);
        sink_of(user).begin(facts);
    });
}

inline std::uint32_t sink_write(void *user, const evb_event *event, char *reason) noexcept {
    return answered(reason, EVB_SINK_OK, EVB_SINK_LOST, [&] { sink_of(user).write(event_view(event)); });
}

inline std::uint32_t sink_commit(void *user, char *reason) noexcept {
    return answered(reason, EVB_SINK_OK, EVB_SINK_LOST, [&] { sink_of(user).commit(); });
}

inline std::uint32_t sink_close(void *user, char *reason) noexcept {
    return answered(reason, EVB_SINK_OK, EVB_SINK_LOST, [&] { sink_of(user).close(); });
}

// A sink that calls a function with each event.
template <class Function> class function_sink final : public sink {
public:
    explicit function_sink(Function function) : function_(std::move(function)) {}
    void write(const event_view &event) override { function_(event); }

private:
    Function function_;
};

} // namespace detail

// A sink of any kind, until a builder takes it.
class any_sink {
public:
    // Takes over a sink of the program.
    explicit any_sink(std::unique_ptr<sink> own) {
        evb_sink_callbacks callbacks{};
        callbacks.struct_size = sizeof callbacks;
        callbacks.user = own.get();
        callbacks.begin = detail::sink_begin;
        callbacks.write = detail::sink_write;
        callbacks.commit = detail::sink_commit;
        callbacks.close = detail::sink_close;
        callbacks.drop = detail::delete_as<sink>;
        handle_ = detail::made<handle>(evb_sink_create, &callbacks);
        own.release();
    }

    // Makes a sink that calls a function with each `event_view`.
    template <class Function> static any_sink of(Function function) {
        return any_sink(std::make_unique<detail::function_sink<Function>>(std::move(function)));
    }

    // Makes a sink that writes event files. `rotate_at` is the largest size of a file in bytes, 0 for
    // 2 GiB; with `fsync`, accepted events survive a power cut.
    static any_sink files(const std::string &directory, std::uint64_t rotate_at = 0, bool fsync = false) {
        evb_file_options options{};
        options.struct_size = sizeof options;
        options.directory = directory.c_str();
        options.rotate_at = rotate_at;
        options.fsync = fsync ? 1 : 0;
        return any_sink(detail::made<handle>(evb_sink_create_files, &options));
    }

    // Makes a sink that accepts every event and keeps none.
    static any_sink null() { return any_sink(detail::made<handle>(evb_sink_create_null)); }

    // Returns the sink as evb.h has it, for a function that uses it up.
    evb_sink *release() noexcept { return handle_.release(); }

private:
    using handle = detail::handle<evb_sink, evb_sink_free>;
    explicit any_sink(handle made) noexcept : handle_(std::move(made)) {}
    handle handle_;
};

namespace detail {

// Calls a function of the program that makes the fragment of an event.
template <class Function> struct readout {
    static std::uint32_t make(void *user, std::uint64_t event, evb_fragment *into, char *reason) noexcept {
        bool is_made = false;
        const std::uint32_t answer = answered(reason, EVB_READOUT_FRAGMENT, EVB_READOUT_FAILED, [&] {
            std::optional<fragment> made = (*static_cast<Function *>(user))(event);
            if (made) {
                *into = made->take();
                is_made = true;
            }
        });
        const bool is_none = answer == EVB_READOUT_FRAGMENT && !is_made;
        return is_none ? static_cast<std::uint32_t>(EVB_READOUT_NONE) : answer;
    }

    // Moves the function to the heap; evb deletes it.
    static evb_readout raw(Function function) {
        evb_readout readout{};
        readout.struct_size = sizeof readout;
        readout.fragment = make;
        readout.drop = delete_as<Function>;
        readout.user = new Function(std::move(function));
        return readout;
    }
};

} // namespace detail

// The outcome of a run, as a source or builder learns it.
struct outcome {
    std::uint32_t run;
    std::uint64_t epoch;
    // 0: every event is complete and accounted for; 1: some are not, or the run failed.
    std::uint32_t exit_code;
    // The outcome as a sentence.
    std::string verdict;

    explicit outcome(const evb_outcome &raw)
        : run(raw.run), epoch(raw.epoch), exit_code(raw.exit_code), verdict(raw.verdict) {}
};

// The closed ledger of a run: triggered = inhibited + complete + incomplete + lost + rejected.
struct ledger {
    std::uint32_t run;
    std::uint64_t epoch, triggered, inhibited, complete, incomplete, lost, rejected, payload_bytes;
    double duration_s;
    // 0: every event is complete and accounted for; 1: some are not, or the run failed.
    std::uint32_t exit_code;
    // The outcome as a sentence.
    std::string verdict;

    explicit ledger(const evb_ledger &raw)
        : run(raw.run), epoch(raw.epoch), triggered(raw.triggered), inhibited(raw.inhibited),
          complete(raw.complete), incomplete(raw.incomplete), lost(raw.lost), rejected(raw.rejected),
          payload_bytes(raw.payload_bytes), duration_s(raw.duration_s), exit_code(raw.exit_code),
          verdict(raw.verdict) {}
};

// Settings of a source. 0 and an empty text mean the default, which evb.h states.
struct source_options {
    std::string supervisor; // host:port
    std::uint16_t id = 0;
    std::string key_file;
    std::string bind;
    std::uint64_t max_fragment = 0;
    std::uint64_t backlog = 0;
    std::chrono::milliseconds start_timeout{0};
    std::chrono::nanoseconds queue_delay{0};
    std::uint32_t mtu = 0;
    evb_transport transport = EVB_TCP;
    evb_clock clock{}; // of the timestamps; without a rate, evb does not compare these

    // Returns the settings as evb.h has them, valid as long as this object.
    evb_source_options raw() const noexcept {
        evb_source_options raw{};
        raw.struct_size = sizeof raw;
        raw.supervisor = supervisor.c_str();
        raw.key_file = detail::or_null(key_file);
        raw.bind = detail::or_null(bind);
        raw.max_fragment = max_fragment;
        raw.backlog = backlog;
        raw.start_timeout_ms = detail::milliseconds(start_timeout);
        raw.queue_delay_ns = queue_delay.count() < 0 ? 0 : static_cast<std::uint64_t>(queue_delay.count());
        raw.mtu = mtu;
        raw.transport = transport;
        raw.id = id;
        raw.clock = clock;
        return raw;
    }
};

// Result of `source::try_push`.
enum class pushed { yes, full, ended };

// A readout computer's end of the event builder. It keeps each fragment until the event's builder has
// asked for it and the builder's sink has accepted the event.
class source {
public:
    // Registers at the supervisor, and waits until it has accepted the source. The program pushes.
    static source connect(const source_options &options) {
        const evb_source_options raw = options.raw();
        return source(detail::made<handle>(evb_source_connect, &raw));
    }

    // Connects with readout that makes each fragment when evb asks for it: a function that takes an
    // event id and returns std::optional<evb::fragment>. It runs on the thread of the source, so it
    // must not take long. After an exception the event lacks this source, and `finished` throws.
    template <class Function> static source on_demand(const source_options &options, Function readout) {
        const evb_source_options raw = options.raw();
        const evb_readout callbacks = detail::readout<Function>::raw(std::move(readout));
        return source(detail::made<handle>(evb_source_connect_on_demand, &raw, &callbacks));
    }

    // The first event that this source has a part in.
    std::uint64_t first_event() const {
        std::uint64_t event = 0;
        detail::call(evb_source_first_event, handle_.get(), &event);
        return event;
    }

    // Copies a payload and pushes it as the fragment of an event. Waits while the backlog is full.
    // Returns false if the run is over.
    [[nodiscard]] bool push(std::uint64_t event, std::uint64_t timestamp, bytes_view payload) {
        return detail::pushes(evb_source_push, handle_.get(), event, timestamp, payload.data(), payload.size());
    }

    // Pushes a container, such as a vector, without copying its bytes: evb takes it over, and destroys
    // it on a thread of its own. If the container is not taken, it is as before the call.
    template <class Container>
    [[nodiscard]] bool push_owned(std::uint64_t event, std::uint64_t timestamp, Container &&payload) {
        const evb_fragment raw = detail::owned(event, timestamp, std::forward<Container>(payload));
        evb_error failure;
        const evb_code code = evb_source_push_owned(handle_.get(), &raw, &failure);
        if (code == EVB_OK) {
            return true;
        }
        const std::unique_ptr<Container> holder(static_cast<Container *>(raw.owner));
        payload = std::move(*holder);
        if (code == EVB_ENDED) {
            return false;
        }
        throw error(failure);
    }

    // Pushes a fragment. If it is not taken, it is as before the call.
    [[nodiscard]] bool push(fragment &&one) {
        const bool is_taken =
            one.raw().release == nullptr
                ? push(one.event(), one.timestamp(), one.payload())
                : detail::pushes(evb_source_push_owned, handle_.get(), &one.raw());
        if (is_taken) {
            one.take();
        }
        return is_taken;
    }

    // Pushes a fragment if the backlog has room at this moment. Otherwise the fragment is as before.
    [[nodiscard]] pushed try_push(fragment &&one) {
        evb_error failure;
        const evb_code code = evb_source_try_push(handle_.get(), &one.raw(), &failure);
        if (code == EVB_FULL) {
            return pushed::full;
        }
        if (code == EVB_ENDED) {
            return pushed::ended;
        }
        detail::check(code, failure);
        one.take();
        return pushed::yes;
    }

    // Pushes fragments in their order, and removes the pushed ones from the batch. Waits while the
    // backlog is full. Returns false if the run is over.
    [[nodiscard]] bool push_many(batch &fragments) {
        std::size_t taken = 0;
        evb_error failure;
        const auto &all = fragments.fragments_;
        const evb_code code =
            evb_source_push_many(handle_.get(), all.data(), all.size(), &taken, &failure);
        fragments.remove(taken, false);
        if (code == EVB_ENDED) {
            return false;
        }
        detail::check(code, failure);
        return true;
    }

    // Asks the supervisor to end the run.
    void request_run_end(const std::string &cause) {
        detail::call(evb_source_request_run_end, handle_.get(), cause.c_str());
    }

    // Waits until the run is over.
    outcome finished() const {
        return detail::waited<outcome, evb_outcome>(evb_source_finished, handle_.get(), EVB_FOREVER).value();
    }
    // Waits until the run is over, or until the time limit has passed: then there is no outcome.
    std::optional<outcome> finished(std::chrono::milliseconds limit) const {
        return detail::waited<outcome, evb_outcome>(evb_source_finished, handle_.get(),
                                                    detail::milliseconds(limit));
    }

    // Ends the source at once: events that lack its fragments are incomplete.
    void abort() { detail::call(evb_source_abort, handle_.get()); }

    evb_source *raw() const noexcept { return handle_.get(); }

private:
    friend class local_system;
    using handle = detail::handle<evb_source, evb_source_free>;
    explicit source(handle made) noexcept : handle_(std::move(made)) {}
    handle handle_;
};

// Settings of a builder. 0 and an empty text mean the default, which evb.h states.
struct builder_options {
    std::string supervisor; // host:port
    std::uint16_t id = 0;
    std::string key_file;
    std::string listen; // host:port
    std::uint64_t memory = 0;
    std::chrono::milliseconds start_timeout{0};
    std::chrono::milliseconds give_up{0};
    std::uint64_t port_buffer = 0;
    std::uint64_t port_rate = 0;
    std::uint32_t sources = 0;
    std::uint32_t mtu = 0;
    evb_transport transport = EVB_TCP;

    // Returns the settings as evb.h has them, valid as long as this object.
    evb_builder_options raw() const noexcept {
        evb_builder_options raw{};
        raw.struct_size = sizeof raw;
        raw.supervisor = supervisor.c_str();
        raw.key_file = detail::or_null(key_file);
        raw.listen = detail::or_null(listen);
        raw.memory = memory;
        raw.start_timeout_ms = detail::milliseconds(start_timeout);
        raw.give_up_ms = detail::milliseconds(give_up);
        raw.port_buffer = port_buffer;
        raw.port_rate = port_rate;
        raw.sources = sources;
        raw.mtu = mtu;
        raw.transport = transport;
        raw.id = id;
        return raw;
    }
};

// Collects the fragments of its events and hands the events to its sink.
class builder {
public:
    // Listens for sources and registers at the supervisor; waits until it has accepted the builder.
    static builder connect(const builder_options &options, any_sink into) {
        const evb_builder_options raw = options.raw();
        return builder(detail::made<handle>(evb_builder_connect, &raw, into.release()));
    }

    // The address at which the builder listens.
    std::string address() const {
        char address[64];
        detail::call(evb_builder_address, handle_.get(), address, sizeof address);
        return address;
    }

    // Asks the supervisor to end the run.
    void request_run_end(const std::string &cause) {
        detail::call(evb_builder_request_run_end, handle_.get(), cause.c_str());
    }

    // Waits until the run is over: then the sink has accepted every event, or the ledger names it.
    outcome finished() const {
        return detail::waited<outcome, evb_outcome>(evb_builder_finished, handle_.get(), EVB_FOREVER).value();
    }
    // Waits until the run is over, or until the time limit has passed: then there is no outcome.
    std::optional<outcome> finished(std::chrono::milliseconds limit) const {
        return detail::waited<outcome, evb_outcome>(evb_builder_finished, handle_.get(),
                                                    detail::milliseconds(limit));
    }

    // Ends the builder at once. Events that its sink has not accepted go to other builders.
    void abort() { detail::call(evb_builder_abort, handle_.get()); }

    evb_builder *raw() const noexcept { return handle_.get(); }

private:
    using handle = detail::handle<evb_builder, evb_builder_free>;
    explicit builder(handle made) noexcept : handle_(std::move(made)) {}
    handle handle_;
};

// Settings of a system in this process. 0 means the default, which evb.h states.
struct local_options {
    std::uint32_t sources = 1;
    std::uint32_t builders = 1;
    std::uint64_t events = 0;
    std::uint64_t fragment_size = 0;
    std::uint64_t max_fragment = 0;
    std::uint64_t backlog = 0;
    evb_trigger trigger = EVB_TRIGGER_AS_FAST_AS_POSSIBLE;
    evb_transport transport = EVB_TCP;

    evb_local_options raw() const noexcept {
        evb_local_options raw{};
        raw.struct_size = sizeof raw;
        raw.events = events;
        raw.fragment_size = fragment_size;
        raw.max_fragment = max_fragment;
        raw.backlog = backlog;
        raw.sources = sources;
        raw.builders = builders;
        raw.trigger = trigger;
        raw.transport = transport;
        return raw;
    }
};

// Sources, builders and a supervisor in one process: for tests, examples, and readout on one computer.
class local_system {
public:
    // Starts a system. `make_sink` takes the id of a builder and returns its `any_sink`.
    template <class MakeSink> static local_system start(const local_options &options, MakeSink make_sink) {
        return with(options, make_sink, nullptr);
    }

    // Starts a system with readout on demand. `make_readout` takes the id of a source and returns a
    // function that takes an event id and returns std::optional<evb::fragment>.
    template <class MakeReadout, class MakeSink>
    static local_system start_on_demand(const local_options &options, MakeReadout make_readout,
                                        MakeSink make_sink) {
        using function = decltype(make_readout(std::uint16_t{1}));
        readouts all;
        all.list.reserve(options.sources);
        for (std::uint32_t id = 1; id <= options.sources; ++id) {
            all.list.push_back(detail::readout<function>::raw(make_readout(static_cast<std::uint16_t>(id))));
        }
        return with(options, make_sink, &all);
    }

    // A new handle to the source with this id.
    evb::source source(std::uint16_t id) const {
        return evb::source(detail::made<evb::source::handle>(evb_local_source, handle_.get(), id));
    }

    // The address of the supervisor, for roles of other processes on this host.
    std::string address() const {
        char address[64];
        detail::call(evb_local_address, handle_.get(), address, sizeof address);
        return address;
    }

    // Reports external triggers that happened now.
    void trigger(std::uint64_t count) { detail::call(evb_local_trigger, handle_.get(), count); }

    // Ends the run: it takes no more triggers, and every event under way is built or accounted for.
    void request_run_end(const std::string &cause) {
        detail::call(evb_local_request_run_end, handle_.get(), cause.c_str());
    }

    // Waits until the ledger is closed and every sink has closed.
    ledger finished() const {
        return detail::waited<ledger, evb_ledger>(evb_local_finished, handle_.get(), EVB_FOREVER).value();
    }
    // Waits until the ledger is closed, or until the time limit has passed: then there is none.
    std::optional<ledger> finished(std::chrono::milliseconds limit) const {
        return detail::waited<ledger, evb_ledger>(evb_local_finished, handle_.get(),
                                                  detail::milliseconds(limit));
    }

    // Ends all roles at once, as if the process were killed.
    void abort() { detail::call(evb_local_abort, handle_.get()); }

    evb_local *raw() const noexcept { return handle_.get(); }

private:
    using handle = detail::handle<evb_local, evb_local_free>;

    // Readouts that evb has not taken over yet.
    struct readouts {
        std::vector<evb_readout> list;
        readouts() = default;
        readouts(const readouts &) = delete;
        readouts &operator=(const readouts &) = delete;
        ~readouts() {
            for (const evb_readout &one : list) {
                one.drop(one.user);
            }
        }
    };

    template <class MakeSink>
    static local_system with(const local_options &options, MakeSink &make_sink, readouts *given) {
        std::vector<any_sink> sinks;
        sinks.reserve(options.builders);
        for (std::uint32_t id = 1; id <= options.builders; ++id) {
            sinks.push_back(make_sink(static_cast<std::uint16_t>(id)));
        }
        std::vector<evb_sink *> raw_sinks(sinks.size());
        for (std::size_t index = 0; index < sinks.size(); ++index) {
            raw_sinks[index] = sinks[index].release();
        }
        // evb takes sinks and readouts over, whatever happens.
        const std::vector<evb_readout> raw_readouts =
            given == nullptr ? std::vector<evb_readout>{} : std::exchange(given->list, {});
        const evb_local_options raw = options.raw();
        const evb_readout *first = given == nullptr ? nullptr : raw_readouts.data();
        return local_system(detail::made<handle>(evb_local_start, &raw, raw_sinks.data(), first));
    }

    explicit local_system(handle made) noexcept : handle_(std::move(made)) {}
    handle handle_;
};

} // namespace evb

#endif
