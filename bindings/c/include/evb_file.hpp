// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Reader of the event files of the evb event builder, in one header: C++17, with nothing but the
// standard library and POSIX files.
//
//     #include "evb_file.hpp"
//
//     evb::file::EventFile file("run000001_b01_0000.evb");
//     for (const evb::file::Item& item : file.events()) {
//         if (!item) {                                   // damage, told as by `evbd verify`
//             std::cerr << item.finding->text << "\n";
//             continue;
//         }
//         for (const evb::file::Fragment& fragment : item.event.fragments)
//             use(fragment.source, fragment.timestamp, fragment.data, fragment.size);
//     }
//
// `EventFile` reads one file, in file order or by event id. `Run` reads all files of a run in the
// order of event ids, each event once. `verify` reads every byte and accounts for every event. The
// path "-" is standard input.
//
// Payloads are not copied: a fragment points into the mapped file or the buffer of its reader, and
// stays valid until the next event is read there. The checksum of a payload is verified once, when
// its event is read; with `Read::unchecked` it is not verified at all.
//
// Findings (damaged records, torn tails, ...) are values. A constructor throws `Error`, which is a
// `std::runtime_error`, if there is nothing to read. Different objects may be used by different
// threads at the same time; one object may not.
//
// `docs/reference/file-format.md` in evb's repository specifies the format; the FILE-n in comments
// are its requirements. The Rust crate `evb-file` is the twin of this reader: both give the same
// events and the same findings.

#ifndef EVB_FILE_HPP
#define EVB_FILE_HPP

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// Carry-less multiplication makes checksums several times faster. The processor is asked at run
// time. Interpreters such as cling cannot link what the question takes, and use tables.
#if !defined(EVB_FILE_PORTABLE_CRC) && !defined(__CLING__) && defined(__x86_64__) && \
    (defined(__GNUC__) || defined(__clang__))
#define EVB_FILE_X86 1
#include <immintrin.h>
#else
#define EVB_FILE_X86 0
#endif

namespace evb::file {

// ---------------------------------------------------------------------------------------------
// Values
// ---------------------------------------------------------------------------------------------

/// The newest version of the file format that this header reads. It reads all earlier ones too.
inline constexpr std::uint16_t format_version = 2;

/// The reason why bytes of a file are not a valid record or index.
enum class Flaw {
    /// The bytes do not begin with the magic number of a record.
    magic,
    /// An index begins that does not match the records before it.
    index,
    /// The lengths in the record's head contradict each other.
    lengths,
    /// The file ends before the record does.
    past_end,
    /// The checksum of the record's head is wrong.
    head_checksum,
    /// The record's head was not checked, so that a hostile file does not take hours.
    unchecked,
    /// A reserved bit is set, or a flag contradicts the rest.
    reserved,
    /// The record is of another file: an old disk block, or a file inside a payload.
    tag,
    /// The record has flags that this header does not know.
    unknown_flags,
    /// The record has a section that this header does not know and may not skip.
    unknown_section,
    /// The record is of another run or builder than its file.
    foreign,
    /// The checksum of a payload is wrong.
    payload_checksum,
    /// The padding after the last payload is not zero.
    padding,
};

/// The kind of a finding.
enum class Kind {
    /// The operating system refused an operation.
    file,
    /// The file header is unusable, so the whole file is unreadable.
    header,
    /// A record or the index is damaged. Reading continues with the next intact record.
    damaged,
    /// The file ends inside a record, because its writer was killed. All records before it are
    /// whole.
    torn_tail,
    /// The record is intact but larger than the reader's limit.
    too_large,
    /// An index entry does not point to the record of its event: the writing program is at fault.
    wrong_index,
    /// The files are of several runs, or not of the chosen one (only from `Run` and `verify`).
    foreign,
};

/// Returns the name of a kind, such as "torn_tail".
inline const char* name(Kind kind) {
    switch (kind) {
        case Kind::file: return "file";
        case Kind::header: return "header";
        case Kind::damaged: return "damaged";
        case Kind::torn_tail: return "torn_tail";
        case Kind::too_large: return "too_large";
        case Kind::wrong_index: return "wrong_index";
        case Kind::foreign: return "foreign";
    }
    return "";
}

/// Something wrong with a file, found in place of an event.
struct Finding {
    Kind kind = Kind::file;
    /// The path of the file, as it was given.
    std::string path;
    /// The offset of the record, in bytes; 0 if the finding concerns the whole file.
    std::uint64_t offset = 0;
    /// The number of bytes that cannot be read; for `too_large`, the size of the record.
    std::uint64_t length = 0;
    /// The event, if it is known.
    std::optional<std::uint64_t> event;
    /// The flaw of a damaged record.
    std::optional<Flaw> flaw;
    /// The source of a payload whose checksum is wrong.
    std::optional<std::uint16_t> source;
    /// The unknown flags, or the type of the unknown section, of a record that needs a newer evb.
    std::optional<std::uint16_t> unknown;
    /// The finding in words, equal to those of the Rust reader.
    std::string text;
};

/// The reason why there is nothing to read.
class Error : public std::runtime_error {
  public:
    explicit Error(Finding finding) : std::runtime_error(finding.text), finding_(std::move(finding)) {}
    const Finding& finding() const noexcept { return finding_; }

  private:
    Finding finding_;
};

/// The identity of a run, of 128 bits. No other run has it.
struct RunId {
    /// The bytes in the order of the hexadecimal digits; all zero if the id is not known.
    std::array<std::uint8_t, 16> bytes{};

    bool known() const noexcept { return *this != RunId{}; }
    /// Returns the 32 hexadecimal digits.
    std::string text() const {
        std::string digits;
        for (const std::uint8_t byte : bytes) {
            digits += "0123456789abcdef"[byte >> 4];
            digits += "0123456789abcdef"[byte & 15];
        }
        return digits;
    }
    /// Returns the first 8 digits, which are enough for people.
    std::string short_text() const { return text().substr(0, 8); }

    friend bool operator==(const RunId& a, const RunId& b) noexcept { return a.bytes == b.bytes; }
    friend bool operator!=(const RunId& a, const RunId& b) noexcept { return a.bytes != b.bytes; }
};

/// The reason why a source has no fragment in an event. Codes of later versions of evb are possible.
enum class Cause : std::uint8_t {
    /// Not known, for example in a file of format 1.
    unknown = 0,
    /// The source was not connected, or counted as down.
    down = 1,
    /// The source was up and did not announce a fragment until the event's deadline.
    silent = 2,
    /// No readout delivered data to the source.
    no_readout = 3,
    /// The fragment reached evb, which could not take it.
    refused = 4,
    /// The fragment arrived with a wrong checksum.
    damaged = 5,
    /// The lane broke before the fragment had arrived.
    lost_in_network = 6,
    /// The run ended before the fragment had arrived.
    given_up = 7,
    /// An operator excluded the source while the event waited for its fragment.
    released = 8,
    /// Packets of the fragment were lost before they reached the source.
    lost_packets = 9,
    /// An operator had excluded the source from the run.
    excluded = 16,
    /// Events are complete without the source.
    expendable = 17,
};

/// Returns a cause in words, such as "silent until the deadline".
inline std::string in_words(Cause cause) {
    switch (cause) {
        case Cause::unknown: return "unknown";
        case Cause::down: return "down";
        case Cause::silent: return "silent until the deadline";
        case Cause::no_readout: return "no readout";
        case Cause::refused: return "refused";
        case Cause::damaged: return "damaged";
        case Cause::lost_in_network: return "lost in the network";
        case Cause::given_up: return "given up at the end of the run";
        case Cause::released: return "released by exclude";
        case Cause::lost_packets: return "packets lost before the source";
        case Cause::excluded: return "excluded";
        case Cause::expendable: return "expendable";
    }
    return "cause " + std::to_string(static_cast<unsigned>(cause));
}

/// A source that has no fragment in an event, and the reason.
struct MissingSource {
    std::uint16_t source = 0;
    Cause cause = Cause::unknown;

    friend bool operator==(const MissingSource& a, const MissingSource& b) noexcept {
        return a.source == b.source && a.cause == b.cause;
    }
};

/// Whether a fragment belongs to its event, by its time stamp.
enum class Alignment : std::uint8_t {
    /// The time stamp was not compared: the source has no clock, or no other source has one.
    unchecked = 0,
    /// The fragment belongs to the event.
    agrees = 1,
    /// The fragment's time is not that of the event.
    disagrees = 2,
    /// The clock was still being learnt, or no clock was there to compare it with.
    unknown = 3,
    /// The fragment was built into another event, and a repair moved it to this one, to which it belongs.
    moved = 4,
};

/// Returns a state of alignment in words, such as "disagrees".
inline std::string in_words(Alignment state) {
    switch (state) {
        case Alignment::unchecked: return "not checked";
        case Alignment::agrees: return "agrees";
        case Alignment::disagrees: return "disagrees";
        case Alignment::moved: return "moved";
        case Alignment::unknown: break;
    }
    return "not known";
}

/// One source's data for an event.
struct Fragment {
    std::uint16_t source = 0;
    /// The detector's time stamp, in its own ticks.
    std::uint64_t timestamp = 0;
    /// The payload; null if only heads are read.
    const std::uint8_t* data = nullptr;
    /// The length of the payload, in bytes.
    std::size_t size = 0;
    /// The payload's CRC-64/NVME, as computed where the fragment entered the system.
    std::uint64_t checksum = 0;
    /// Whether the fragment belongs to the event; unchecked in files of version 1.
    Alignment alignment = Alignment::unchecked;
    /// The number of packets of the fragment that were lost before they reached evb.
    std::uint32_t lost_packets = 0;
};

/// A built event.
struct Event {
    /// The trigger number, from 1.
    std::uint64_t id = 0;
    std::uint32_t run = 0;
    /// The identity of the run. If the header does not have it, the record's first 8 digits.
    RunId run_id;
    /// The builder of the event.
    std::uint16_t builder = 0;
    /// The epoch of the event's assignment. Of several copies in one run, the highest epoch counts.
    std::uint64_t epoch = 0;
    /// The time of the trigger: nanoseconds on the builder's monotonic clock.
    std::uint64_t triggered_ns = 0;
    /// The time of the trigger in nanoseconds since 1970 (UTC), on the run's scale; 0: unknown.
    std::uint64_t utc_ns = 0;
    /// The sources that owe the event a fragment and did not contribute one, with causes; empty for
    /// a complete event.
    std::vector<MissingSource> missing;
    /// The sources that do not owe the event a fragment, because they are excluded or expendable,
    /// and did not contribute one.
    std::vector<MissingSource> absent;
    /// The tag of the event, 0 if it has none.
    std::uint64_t tag = 0;
    /// The fragments, in the order of the file. This order is not guaranteed to be that of ids.
    std::vector<Fragment> fragments;
    /// The place of the record in its file, in bytes.
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    std::uint64_t head_length = 0;

    /// The flaw that makes the record need a newer evb. Such an event is never returned.
    std::optional<std::pair<Flaw, std::uint16_t>> refusal;

    /// Returns true if every source that owes the event a fragment contributed one.
    bool complete() const noexcept { return missing.empty(); }
    /// Returns true if every source of the run contributed, and no fragment lost packets.
    bool whole() const noexcept {
        const auto is_lossy = [](const auto& fragment) { return fragment.lost_packets > 0; };
        return missing.empty() && absent.empty() && std::none_of(fragments.begin(), fragments.end(), is_lossy);
    }
    /// Returns true if no fragment is known to belong to another event.
    bool aligned() const noexcept {
        for (const Fragment& one : fragments)
            if (one.alignment == Alignment::disagrees) return false;
        return true;
    }
    /// Returns the cause of a missing or absent source; nothing for any other source.
    std::optional<Cause> cause(std::uint16_t source) const noexcept {
        for (const auto* list : {&missing, &absent})
            for (const MissingSource& one : *list)
                if (one.source == source) return one.cause;
        return std::nullopt;
    }

    /// Returns the fragment of a source, or null.
    const Fragment* fragment(std::uint16_t source) const noexcept {
        for (const Fragment& one : fragments)
            if (one.source == source) return &one;
        return nullptr;
    }

    /// Returns the total size of the payloads, in bytes.
    std::uint64_t payload_size() const noexcept {
        std::uint64_t sum = 0;
        for (const Fragment& one : fragments) sum += one.size;
        return sum;
    }
};

/// An event, or a finding in its place.
struct Item {
    /// The event; not to be used if there is a finding.
    Event event;
    std::optional<Finding> finding;

    /// Returns true if this is an event.
    explicit operator bool() const noexcept { return !finding; }
};

/// The header of an event file.
struct Header {
    /// The version of the file's format.
    std::uint16_t version = format_version;
    std::uint32_t run = 0;
    /// The identity of the run. If the header was recovered from records, its first 8 digits.
    RunId run_id;
    /// The epoch of the run; the file's records may belong to later epochs.
    std::uint64_t epoch = 0;
    /// The builder of the events; none in a merged file.
    std::optional<std::uint16_t> builder;
    /// The number of the file within its run and builder, from 0.
    std::uint32_t sequence = 0;
    /// The time at which the file was begun: nanoseconds since 1970 (UTC) on the writing host.
    std::uint64_t created_unix_ns = 0;
    /// The begin of the run in nanoseconds since 1970 (UTC) on the supervisor's clock; 0: unknown.
    std::uint64_t begun_unix_ns = 0;
    /// True if the kernel of the supervisor's host said then that its clock was synchronised;
    /// nothing if that is unknown.
    std::optional<bool> clock_synchronised;
    /// The kind of the run and the comment on it, UTF-8.
    std::string kind;
    std::string comment;
    /// The sources of the run.
    std::vector<std::uint16_t> sources;
    /// The names of sources and builders that have one, UTF-8.
    std::map<std::uint16_t, std::string> source_names;
    std::map<std::uint16_t, std::string> builder_names;
    /// The program that wrote the file, UTF-8.
    std::string creator;
};

/// The offset of one event's record.
struct IndexEntry {
    std::uint64_t event = 0;
    std::uint64_t epoch = 0;
    std::uint64_t offset = 0;
};

inline bool operator<(const IndexEntry& a, const IndexEntry& b) noexcept {
    return std::tie(a.event, a.epoch, a.offset) < std::tie(b.event, b.epoch, b.offset);
}
inline bool operator==(const IndexEntry& a, const IndexEntry& b) noexcept {
    return std::tie(a.event, a.epoch, a.offset) == std::tie(b.event, b.epoch, b.offset);
}

/// The part of a file from which its damaged header was recovered.
enum class Recovery {
    /// The closing block has a copy of the header, so everything is known.
    closing_block,
    /// Run, builder and the first digits of the run id are those of the records; everything else is
    /// unknown.
    records,
};

/// Returns the finding about a recovered header in words.
inline const char* in_words(Recovery recovery) {
    switch (recovery) {
        case Recovery::closing_block:
            return "the header is damaged; recovered from the closing block, so nothing is lost; "
                   "`evbd merge` makes a file with a whole header";
        case Recovery::records:
            return "the header is damaged; recovered from its records, so kind, comment and names are lost, but no event; "
                   "`evbd merge` makes a file with a whole header";
    }
    return "";
}

/// The state of a file's index. Without an intact index, the file is scanned.
enum class IndexState { present, absent, damaged };

/// Returns the name of a state, such as "present".
inline const char* name(IndexState state) {
    switch (state) {
        case IndexState::present: return "present";
        case IndexState::absent: return "absent";
        case IndexState::damaged: return "damaged";
    }
    return "";
}

/// The part of each record that is read.
enum class Read {
    /// Everything; the checksums of payloads are verified.
    checked,
    /// Everything; neither the checksums of payloads nor the padding are verified.
    unchecked,
    /// The heads of records, whose checksums are always verified. Fragments have no data.
    heads,
};

struct Options {
    Read read = Read::checked;
    /// The largest record that is read into memory, in bytes. A larger one is a finding.
    std::uint64_t record_limit = std::uint64_t{1} << 30;
    /// Maps a file with an intact index into memory, which is the fastest way to read it. (A file
    /// without an index is always read through a buffer, because its writer may still run and cut
    /// it back.) If a mapped file becomes shorter, or its disk fails, the system stops the program
    /// with the signal SIGBUS; without a map, the reader returns a finding.
    bool map = true;
};

/// A range of epochs, both ends included.
struct EpochRange {
    std::uint64_t first = 0;
    std::uint64_t last = ~std::uint64_t{0};

    bool contains(std::uint64_t epoch) const noexcept { return first <= epoch && epoch <= last; }
};

/// The choice of one run among those of several files.
struct Selection {
    /// The number of the run, or at least the first 4 hexadecimal digits of its id; nothing if the
    /// files are of one run only.
    std::optional<std::string> run;
    /// True if all files with one run number and without a known run id are of one run.
    bool same_run = false;
    /// The epochs of the records to read, from all files with one run number and without a known
    /// run id; nothing for all.
    std::optional<EpochRange> epochs;

    /// Returns true if a record of that epoch is read.
    bool takes(std::uint64_t epoch) const noexcept { return !epochs || epochs->contains(epoch); }
};

// ---------------------------------------------------------------------------------------------
// Checksums
// ---------------------------------------------------------------------------------------------

namespace detail {

inline std::uint16_t le16(const std::uint8_t* p) noexcept {
    return static_cast<std::uint16_t>(p[0] | p[1] << 8);
}
inline std::uint32_t le32(const std::uint8_t* p) noexcept {
    return static_cast<std::uint32_t>(p[0]) | static_cast<std::uint32_t>(p[1]) << 8 |
           static_cast<std::uint32_t>(p[2]) << 16 | static_cast<std::uint32_t>(p[3]) << 24;
}
inline std::uint64_t le64(const std::uint8_t* p) noexcept {
    return static_cast<std::uint64_t>(p[0]) | static_cast<std::uint64_t>(p[1]) << 8 |
           static_cast<std::uint64_t>(p[2]) << 16 | static_cast<std::uint64_t>(p[3]) << 24 |
           static_cast<std::uint64_t>(p[4]) << 32 | static_cast<std::uint64_t>(p[5]) << 40 |
           static_cast<std::uint64_t>(p[6]) << 48 | static_cast<std::uint64_t>(p[7]) << 56;
}

/// The polynomial of CRC-64/NVME without its highest term, bits reversed (FILE-3). In reversed
/// numbers, bit i stands for the power 63 - i of x.
inline constexpr std::uint64_t crc_polynomial = 0x9a6c9329ac4bc9b5;

/// Returns x to the given power modulo the polynomial, bits reversed.
constexpr std::uint64_t crc_power(unsigned power) noexcept {
    std::uint64_t value = std::uint64_t{1} << 63;
    for (; power > 0; --power) value = (value >> 1) ^ ((value & 1) != 0 ? crc_polynomial : 0);
    return value;
}

/// Tables for eight bytes at a time (the method is known as slicing-by-8).
struct CrcTables {
    std::array<std::array<std::uint64_t, 256>, 8> of{};

    CrcTables() noexcept {
        for (unsigned byte = 0; byte < 256; ++byte) {
            std::uint64_t value = byte;
            for (int bit = 0; bit < 8; ++bit)
                value = (value >> 1) ^ ((value & 1) != 0 ? crc_polynomial : 0);
            of[0][byte] = value;
        }
        for (std::size_t place = 1; place < 8; ++place)
            for (std::size_t byte = 0; byte < 256; ++byte) {
                const std::uint64_t before = of[place - 1][byte];
                of[place][byte] = of[0][before & 0xff] ^ (before >> 8);
            }
    }
};

inline std::uint64_t crc_by_tables(std::uint64_t crc, const std::uint8_t* data, std::size_t size) noexcept {
    static const CrcTables tables;
    const auto& of = tables.of;
    for (; size >= 8; data += 8, size -= 8) {
        const std::uint64_t mixed = crc ^ le64(data);
        crc = of[7][mixed & 0xff] ^ of[6][mixed >> 8 & 0xff] ^ of[5][mixed >> 16 & 0xff] ^
              of[4][mixed >> 24 & 0xff] ^ of[3][mixed >> 32 & 0xff] ^ of[2][mixed >> 40 & 0xff] ^
              of[1][mixed >> 48 & 0xff] ^ of[0][mixed >> 56];
    }
    for (; size > 0; ++data, --size) crc = of[0][(crc ^ *data) & 0xff] ^ (crc >> 8);
    return crc;
}

#if EVB_FILE_X86

// The method: a block of 128 bits, as a polynomial, is multiplied by a power of x modulo the
// CRC's polynomial, which moves it to the place of a later block without a change of the
// remainder (Gopal et al., "Fast CRC computation for generic polynomials using PCLMULQDQ", Intel
// 2009). The product of two reversed numbers has one factor x too much, hence the powers below.

/// Returns the quotient of x^128 and the polynomial without its term x^64, bits reversed.
constexpr std::uint64_t crc_quotient() noexcept {
    constexpr std::uint64_t plain = 0xad93d23594c93659;
    std::uint64_t rest = plain, quotient = 0;
    for (int bit = 0; bit < 64; ++bit) {
        const bool divides = (rest >> 63) != 0;
        rest = (rest << 1) ^ (divides ? plain : 0);
        quotient |= (divides ? std::uint64_t{1} : 0) << bit;
    }
    return quotient;
}

/// The factors that move a block by a number of bits.
template <unsigned Bits>
struct CrcStep {
    static constexpr std::uint64_t low = crc_power(Bits + 63);
    static constexpr std::uint64_t high = crc_power(Bits - 1);
};

#define EVB_FILE_TARGET_128 __attribute__((target("pclmul,sse4.1")))
#define EVB_FILE_TARGET_256 __attribute__((target("pclmul,sse4.1,avx2,vpclmulqdq")))

template <unsigned Bits>
EVB_FILE_TARGET_128 inline __m128i crc_move(__m128i block, __m128i onto) noexcept {
    const __m128i by = _mm_set_epi64x(static_cast<long long>(CrcStep<Bits>::high),
                                      static_cast<long long>(CrcStep<Bits>::low));
    const __m128i low = _mm_clmulepi64_si128(block, by, 0x00);
    const __m128i high = _mm_clmulepi64_si128(block, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), onto);
}

EVB_FILE_TARGET_128 inline __m128i crc_load(const std::uint8_t* data) noexcept {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(data));
}

/// Returns high · x^64 + low modulo the polynomial (Barrett's reduction).
EVB_FILE_TARGET_128 inline std::uint64_t crc_reduce(std::uint64_t high, std::uint64_t low) noexcept {
    constexpr std::uint64_t quotient = crc_quotient();
    const __m128i constants = _mm_set_epi64x(static_cast<long long>(crc_polynomial),
                                             static_cast<long long>(quotient));
    const __m128i value = _mm_cvtsi64_si128(static_cast<long long>(high));
    const __m128i times = _mm_clmulepi64_si128(value, constants, 0x00);
    const std::uint64_t whole = high ^ static_cast<std::uint64_t>(_mm_cvtsi128_si64(times)) << 1;
    const __m128i back = _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<long long>(whole)), constants, 0x10);
    const auto back_low = static_cast<std::uint64_t>(_mm_cvtsi128_si64(back));
    const auto back_high = static_cast<std::uint64_t>(_mm_extract_epi64(back, 1));
    return low ^ (back_high << 1 | back_low >> 63);
}

/// Adds fewer than 16 bytes.
EVB_FILE_TARGET_128 inline std::uint64_t crc_tail(std::uint64_t crc, const std::uint8_t* data,
                                                  std::size_t size) noexcept {
    if (size >= 8) {
        crc = crc_reduce(crc ^ le64(data), 0);
        data += 8;
        size -= 8;
    }
    if (size == 0) return crc;
    std::uint64_t rest = 0;
    std::memcpy(&rest, data, size);
    const unsigned bits = 8 * static_cast<unsigned>(size);
    return crc_reduce((crc ^ rest) << (64 - bits), crc >> bits);
}

/// Adds `data` to a block that stands for the bytes before it.
EVB_FILE_TARGET_128 inline std::uint64_t crc_finish(__m128i block, const std::uint8_t* data,
                                                    std::size_t size) noexcept {
    for (; size >= 16; data += 16, size -= 16) block = crc_move<128>(block, crc_load(data));
    const auto first = static_cast<std::uint64_t>(_mm_cvtsi128_si64(block));
    const auto second = static_cast<std::uint64_t>(_mm_extract_epi64(block, 1));
    const __m128i moved = _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<long long>(first)),
                                               _mm_cvtsi64_si128(static_cast<long long>(crc_power(127))), 0x00);
    const auto high = static_cast<std::uint64_t>(_mm_cvtsi128_si64(moved)) ^ second;
    const auto low = static_cast<std::uint64_t>(_mm_extract_epi64(moved, 1));
    return crc_tail(crc_reduce(high, low), data, size);
}

EVB_FILE_TARGET_128 inline std::uint64_t crc_by_128(std::uint64_t crc, const std::uint8_t* data,
                                                    std::size_t size) noexcept {
    if (size < 16) return crc_tail(crc, data, size);
    __m128i a = _mm_xor_si128(crc_load(data), _mm_cvtsi64_si128(static_cast<long long>(crc)));
    if (size < 128) return crc_finish(a, data + 16, size - 16);
    __m128i b = crc_load(data + 16), c = crc_load(data + 32), d = crc_load(data + 48);
    for (data += 64, size -= 64; size >= 64; data += 64, size -= 64) {
        a = crc_move<512>(a, crc_load(data));
        b = crc_move<512>(b, crc_load(data + 16));
        c = crc_move<512>(c, crc_load(data + 32));
        d = crc_move<512>(d, crc_load(data + 48));
    }
    c = crc_move<256>(a, c);
    d = crc_move<256>(b, d);
    return crc_finish(crc_move<128>(c, d), data, size);
}

template <unsigned Bits>
EVB_FILE_TARGET_256 inline __m256i crc_move_two(__m256i blocks, __m256i onto) noexcept {
    const __m256i by = _mm256_set_epi64x(
        static_cast<long long>(CrcStep<Bits>::high), static_cast<long long>(CrcStep<Bits>::low),
        static_cast<long long>(CrcStep<Bits>::high), static_cast<long long>(CrcStep<Bits>::low));
    const __m256i low = _mm256_clmulepi64_epi128(blocks, by, 0x00);
    const __m256i high = _mm256_clmulepi64_epi128(blocks, by, 0x11);
    return _mm256_xor_si256(_mm256_xor_si256(low, high), onto);
}

EVB_FILE_TARGET_256 inline __m256i crc_load_two(const std::uint8_t* data) noexcept {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data));
}

EVB_FILE_TARGET_256 inline std::uint64_t crc_by_256(std::uint64_t crc, const std::uint8_t* data,
                                                    std::size_t size) noexcept {
    if (size < 256) return crc_by_128(crc, data, size);
    const __m256i begun = _mm256_set_epi64x(0, 0, 0, static_cast<long long>(crc));
    __m256i a = _mm256_xor_si256(crc_load_two(data), begun), b = crc_load_two(data + 32);
    __m256i c = crc_load_two(data + 64), d = crc_load_two(data + 96);
    for (data += 128, size -= 128; size >= 128; data += 128, size -= 128) {
        a = crc_move_two<1024>(a, crc_load_two(data));
        b = crc_move_two<1024>(b, crc_load_two(data + 32));
        c = crc_move_two<1024>(c, crc_load_two(data + 64));
        d = crc_move_two<1024>(d, crc_load_two(data + 96));
    }
    c = crc_move_two<512>(a, c);
    d = crc_move_two<512>(b, d);
    d = crc_move_two<256>(c, d);
    const __m128i block = crc_move<128>(_mm256_castsi256_si128(d), _mm256_extracti128_si256(d, 1));
    return crc_finish(block, data, size);
}

#undef EVB_FILE_TARGET_128
#undef EVB_FILE_TARGET_256

#endif  // EVB_FILE_X86

using CrcFunction = std::uint64_t (*)(std::uint64_t, const std::uint8_t*, std::size_t) noexcept;

/// Returns the fastest function that this processor supports.
inline CrcFunction fastest_crc() noexcept {
#if EVB_FILE_X86
    if (__builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("sse4.1") != 0) {
        const bool wide = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("vpclmulqdq") != 0;
        return wide ? crc_by_256 : crc_by_128;
    }
#endif
    return crc_by_tables;
}

/// A checksum over bytes that arrive in pieces.
class Crc {
  public:
    void update(const std::uint8_t* data, std::size_t size) noexcept {
        static const CrcFunction add = fastest_crc();
        state_ = add(state_, data, size);
    }
    std::uint64_t value() const noexcept { return ~state_; }

  private:
    std::uint64_t state_ = ~std::uint64_t{0};
};

}  // namespace detail

/// Returns the CRC-64/NVME of some bytes.
inline std::uint64_t checksum(const std::uint8_t* data, std::size_t size) noexcept {
    detail::Crc crc;
    crc.update(data, size);
    return crc.value();
}

// ---------------------------------------------------------------------------------------------
// Bytes of the format, without file access
// ---------------------------------------------------------------------------------------------

namespace detail {

inline constexpr std::array<std::uint8_t, 8> file_magic = {0x89, 'E', 'V', 'B', '\r', '\n', 0x1a, '\n'};
inline constexpr std::array<std::uint8_t, 4> record_magic_1 = {'E', 'V', 'B', 'R'};
inline constexpr std::array<std::uint8_t, 4> record_magic_2 = {'E', 'V', 'R', '2'};
inline constexpr std::array<std::uint8_t, 4> index_magic_1 = {'E', 'V', 'B', 'I'};
inline constexpr std::array<std::uint8_t, 4> index_magic_2 = {'E', 'V', 'X', '2'};
inline constexpr std::array<std::uint8_t, 8> trailer_magic = {'E', 'V', 'B', '-', 'E', 'N', 'D', '\n'};

inline constexpr std::uint64_t alignment = 8;
inline constexpr std::uint64_t max_sources = 1 << 16;
inline constexpr std::uint64_t max_record = std::uint64_t{1} << 40;
inline constexpr std::uint64_t max_creator = 1024;
inline constexpr std::uint64_t header_prefix_1 = 56;
inline constexpr std::uint64_t header_prefix_2 = 80;
inline constexpr std::uint64_t max_header_1 = header_prefix_1 + 2 * max_sources + max_creator + 8;
inline constexpr std::uint64_t max_header = 1 << 24;
inline constexpr std::uint64_t min_header = header_prefix_2 + 8;
inline constexpr std::uint64_t max_head = 1 << 22;
inline constexpr std::uint64_t max_records = 1 << 20;
inline constexpr std::uint64_t record_prefix_1 = 56;
inline constexpr std::uint64_t record_prefix_2 = 72;
inline constexpr std::uint64_t fragment_entry = 24;
inline constexpr std::uint64_t index_head = 16;
inline constexpr std::uint64_t index_entry = 24;
inline constexpr std::uint64_t index_trailer = 24;

constexpr std::uint64_t aligned(std::uint64_t size) noexcept { return (size + 7) & ~std::uint64_t{7}; }

/// Bytes in memory that belong to someone else.
struct Bytes {
    const std::uint8_t* data = nullptr;
    std::uint64_t size = 0;

    template <std::size_t N>
    bool starts_with(const std::array<std::uint8_t, N>& magic) const noexcept {
        return size >= N && std::memcmp(data, magic.data(), N) == 0;
    }
    /// Returns true if the bytes are the front of a magic number and too few for all of it.
    template <std::size_t N>
    bool is_cut(const std::array<std::uint8_t, N>& magic) const noexcept {
        return size < N && (size == 0 || std::memcmp(data, magic.data(), size) == 0);
    }
    bool all_zero() const noexcept {
        return std::all_of(data, data + size, [](std::uint8_t byte) { return byte == 0; });
    }
};

/// Returns a number of bytes in words, such as "128 KiB" or "131.1 kB".
inline std::string in_words(std::uint64_t bytes) {
    static constexpr std::pair<std::uint64_t, const char*> steps[] = {
        {std::uint64_t{1} << 30, "GiB"}, {1000000000, "GB"}, {1 << 20, "MiB"},
        {1000000, "MB"},                 {1 << 10, "KiB"},   {1000, "kB"}};
    for (const auto& [step, unit] : steps)
        if (bytes >= step && bytes % step == 0) return std::to_string(bytes / step) + " " + unit;
    char text[48];
    const auto number = static_cast<double>(bytes);
    if (bytes >= 1000000000)
        std::snprintf(text, sizeof text, "%.3f GB", number / 1e9);
    else if (bytes >= 1000000)
        std::snprintf(text, sizeof text, "%.3f MB", number / 1e6);
    else if (bytes >= 10000)
        std::snprintf(text, sizeof text, "%.1f kB", number / 1e3);
    else
        return std::to_string(bytes) + " B";
    return text;
}

/// Returns a number of bytes with three digits, such as "1.93 kB" or "131 MB".
inline std::string about(std::uint64_t bytes) {
    static constexpr std::pair<double, const char*> steps[] = {{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}};
    const auto number = static_cast<double>(bytes);
    for (const auto& [step, unit] : steps) {
        if (number < 0.9995 * step) continue;
        const double scaled = std::max(number / step, 1.0);
        const int places = scaled >= 99.95 ? 0 : scaled >= 9.995 ? 1 : 2;
        char text[32];
        std::snprintf(text, sizeof text, "%.*f %s", places, scaled, unit);
        return text;
    }
    return std::to_string(bytes) + " B";
}

/// Returns flags in words, such as "0x0004".
inline std::string flags_in_words(unsigned flags) {
    char text[16];
    std::snprintf(text, sizeof text, "%#06x", flags);
    return text;
}

/// Returns a flaw in words; `number` is the source, the flags or the section that it concerns.
inline std::string in_words(Flaw flaw, std::uint16_t number) {
    switch (flaw) {
        case Flaw::magic: return "no record begins here";
        case Flaw::index: return "an index begins here that does not match the records before it";
        case Flaw::lengths: return "the lengths in the record's head contradict each other";
        case Flaw::past_end: return "the file ends inside this record: it was cut off, or its builder still writes it";
        case Flaw::head_checksum: return "the checksum of the record's head is wrong";
        case Flaw::unchecked:
            return "this record is not checked, because too much of the file before it is damaged";
        case Flaw::reserved: return "the flags in the record's head contradict the rest of the record";
        case Flaw::tag: return "the record belongs to another file: it is an old disk block, or was copied into this one";
        case Flaw::unknown_flags: return "its flags " + flags_in_words(number) + " need a newer evb";
        case Flaw::unknown_section:
            return "its section " + std::to_string(number) + " is required and needs a newer evb";
        case Flaw::foreign: return "the record belongs to another run or builder than the file: it is an old disk block, or was copied into it";
        case Flaw::payload_checksum:
            return "the checksum of the payload of source " + std::to_string(number) + " is wrong";
        case Flaw::padding: return "the record's padding is not zero";
    }
    return "";
}

/// Returns what to do about a record that cannot be read because of this flaw.
inline const char* remedy(Flaw flaw) {
    if (flaw == Flaw::unknown_flags || flaw == Flaw::unknown_section) return "read this one with the newer evb";
    if (flaw == Flaw::past_end) return "read the file again after the run, or restore it from a copy";
    return "restore the file from a copy";
}

/// The text of a failed operation of the operating system. The number 0 stands for a file that has
/// become shorter.
inline std::string in_words(const char* action, const std::string& path, int error) {
    const std::string reason = error == 0 ? "the file has become shorter since it was opened"
                                          : std::generic_category().message(error) + " (os error " +
                                                std::to_string(error) + ")";
    const std::string what = action;
    const bool is_read = what.compare(0, 4, "read") == 0 || what == "open" || what == "list";
    const char* advice = is_read ? "; check the disk, or read a copy of the file" : "";
    if (error == 0) advice = "; read it again, or restore it from a copy";
    if (error == EMFILE) advice = "; raise the limit of open files, `ulimit -n`";
    if (error == ENOENT) advice = "; check the path";
    if (error == EACCES || error == EPERM) advice = "; give this user access to it";
    if (error == EISDIR || error == EINVAL) advice = "; give an event file, or a directory of event files";
    return std::string("cannot ") + action + " " + path + ": " + reason + advice;
}

inline Finding file_finding(const char* action, const std::string& path, int error) {
    Finding finding;
    finding.kind = Kind::file;
    finding.path = path;
    finding.text = in_words(action, path, error);
    return finding;
}

inline Finding header_finding(const std::string& path, const std::string& flaw) {
    Finding finding;
    finding.kind = Kind::header;
    finding.path = path;
    finding.text = "cannot read " + path + ": " + flaw;
    return finding;
}

/// The reason why a header cannot be used, in words; no words for a good header.
struct HeaderFlaw {
    std::string text;
    /// True if the header may be damaged, so that it may be recovered from the rest of the file.
    bool is_damage = true;

    explicit operator bool() const noexcept { return !text.empty(); }
};

/// Returns the finding about a header that was recovered.
inline Finding header_finding_of(const std::string& path, Recovery recovery) {
    Finding finding;
    finding.kind = Kind::header;
    finding.path = path;
    finding.text = path + ": " + in_words(recovery);
    return finding;
}

inline const char* const short_header =
    "it ends inside its header, so it holds no event: a builder that is stopped at once leaves such a file, "
    "which can be removed; if it was longer, restore it from a copy";
inline const char* const wrong_header =
    "its header is damaged (wrong checksum), so none of its events can be read: restore it from a copy";
inline const char* const wrong_index_words =
    "the index does not match the records of the file: readers find the records without it; "
    "`evbd merge` makes a file with a right index";
inline const char* const damaged_index_words =
    "the checksum of the index is wrong: readers find the records without it; "
    "`evbd merge` makes a file with a right index";
inline const char* const contradiction = "its header contradicts itself, a fault of the program that wrote it: send the file to the authors of that program (of evb, if a builder wrote it)";

/// Returns the length of the header that begins with these bytes, or the flaw (FILE-10, FILE-11).
inline std::pair<std::uint64_t, HeaderFlaw> header_length(Bytes front) {
    if (front.is_cut(file_magic)) return {0, {short_header}};
    if (!front.starts_with(file_magic))
        return {0, {"it is not an event file, or its beginning is damaged (it is not 89 45 56 42 0d 0a 1a 0a): "
                    "give an event file, or restore it from a copy"}};
    if (front.size < 16) return {0, {short_header}};
    const std::uint16_t version = le16(front.data + 8);
    const std::uint64_t length = le32(front.data + 12);
    if (version != 1 && version != 2)
        return {0, {"its format is version " + std::to_string(version) +
                    ", but this program reads versions 1 and 2: use a newer evb"}};
    const bool first = version == 1;
    const bool fits = length >= (first ? header_prefix_1 + 8 : min_header) && length <= (first ? max_header_1 : max_header);
    if (!fits || length % 8 != 0) return {0, {wrong_header}};
    return {length, {}};
}

/// Returns the number of bytes of the UTF-8 character that begins here; 0 if none does.
inline std::uint64_t utf8_length(Bytes text) noexcept {
    const auto follows = [&](std::uint64_t at, unsigned low, unsigned high) {
        return at < text.size && text.data[at] >= low && text.data[at] <= high;
    };
    const unsigned first = text.data[0];
    if (first < 0x80) return 1;
    if (first >= 0xc2 && first <= 0xdf) return follows(1, 0x80, 0xbf) ? 2 : 0;
    if (first >= 0xe0 && first <= 0xef) {
        const unsigned low = first == 0xe0 ? 0xa0 : 0x80, high = first == 0xed ? 0x9f : 0xbf;
        return follows(1, low, high) && follows(2, 0x80, 0xbf) ? 3 : 0;
    }
    if (first >= 0xf0 && first <= 0xf4) {
        const unsigned low = first == 0xf0 ? 0x90 : 0x80, high = first == 0xf4 ? 0x8f : 0xbf;
        return follows(1, low, high) && follows(2, 0x80, 0xbf) && follows(3, 0x80, 0xbf) ? 4 : 0;
    }
    return 0;
}

inline bool is_utf8(Bytes text) noexcept {
    while (text.size > 0) {
        const std::uint64_t length = utf8_length(text);
        if (length == 0) return false;
        text = {text.data + length, text.size - length};
    }
    return true;
}

/// A section, as it stands in a file.
struct Section {
    std::uint16_t type = 0;
    bool is_required = false;
    Bytes body;
};

/// The sections that fill some bytes (FILE-9).
class Sections {
  public:
    explicit Sections(Bytes rest) : rest_(rest) {}

    bool at_end() const noexcept { return rest_.size == 0; }

    /// Reads the next section; returns false if the sections do not fit, or do not ascend.
    bool next(Section& section) noexcept {
        if (rest_.size < 8) return false;
        section.type = le16(rest_.data);
        section.is_required = (le16(rest_.data + 2) & 1) != 0;
        const std::uint64_t length = le32(rest_.data + 4);
        if (aligned(length) > rest_.size - 8 || section.type < least_) return false;
        least_ = section.type + 1u;
        section.body = {rest_.data + 8, length};
        rest_ = {rest_.data + 8 + aligned(length), rest_.size - 8 - aligned(length)};
        return true;
    }

  private:
    Bytes rest_;
    unsigned least_ = 0;
};

/// Decodes a header of version 1 whose checksum is right; returns false if it contradicts itself.
/// The checksum is not among the bytes, of which there are at least 56.
inline bool decode_header_1(Bytes content, Header& header) {
    const std::uint8_t* at = content.data;
    const unsigned flags = le16(at + 10);
    const std::uint64_t sources = le32(at + 36), creator = le32(at + 48);
    header.version = 1;
    header.run = le32(at + 16);
    header.builder = (flags & 1) != 0 ? std::nullopt : std::optional<std::uint16_t>(le16(at + 20));
    header.epoch = le64(at + 24);
    header.sequence = le32(at + 32);
    header.created_unix_ns = le64(at + 40);
    if ((flags & ~1u) != 0 || sources > max_sources || creator > max_creator) return false;
    const std::uint64_t end = header_prefix_1 + 2 * sources + creator;
    if (end > content.size || content.size - end >= 8) return false;
    for (std::uint64_t i = 0; i < sources; ++i) header.sources.push_back(le16(at + header_prefix_1 + 2 * i));
    const Bytes text{at + header_prefix_1 + 2 * sources, creator};
    if (!is_utf8(text)) return false;
    header.creator.assign(reinterpret_cast<const char*>(text.data), text.size);
    return Bytes{at + end, content.size - end}.all_zero();
}

inline bool decode_text(Bytes body, std::string& text) {
    text.assign(reinterpret_cast<const char*>(body.data), body.size);
    return is_utf8(body);
}

inline bool decode_names(Bytes body, std::map<std::uint16_t, std::string>& names) {
    while (body.size > 0) {
        if (body.size < 4) return false;
        const std::uint16_t id = le16(body.data);
        const std::uint64_t length = le16(body.data + 2);
        if (length > body.size - 4 || (!names.empty() && names.rbegin()->first >= id)) return false;
        if (!decode_text({body.data + 4, length}, names[id])) return false;
        body = {body.data + 4 + length, body.size - 4 - length};
    }
    return true;
}

/// Decodes a header of version 2 whose checksum is right. The checksum is not among the bytes, of
/// which there are at least 80.
inline HeaderFlaw decode_header_2(Bytes content, Header& header) {
    const std::uint8_t* at = content.data;
    const unsigned flags = le16(at + 10), clock = at[72];
    const std::uint64_t sources = le32(at + 52);
    header.version = 2;
    header.run = le32(at + 16);
    header.builder = (flags & 1) != 0 ? std::nullopt : std::optional<std::uint16_t>(le16(at + 20));
    std::copy(at + 24, at + 40, header.run_id.bytes.begin());
    header.epoch = le64(at + 40);
    header.sequence = le32(at + 48);
    header.created_unix_ns = le64(at + 56);
    header.begun_unix_ns = le64(at + 64);
    if (clock == 1 || clock == 2) header.clock_synchronised = clock == 1;
    const std::uint64_t end = header_prefix_2 + aligned(2 * sources);
    if (sources > max_sources || end > content.size) return {contradiction, false};
    for (std::uint64_t i = 0; i < sources; ++i) header.sources.push_back(le16(at + header_prefix_2 + 2 * i));
    Sections sections({at + end, content.size - end});
    std::optional<std::uint16_t> unknown;
    for (Section section; !sections.at_end();) {
        bool good = sections.next(section);
        if (good) switch (section.type) {
            case 1: good = decode_text(section.body, header.creator); break;
            case 2: good = decode_text(section.body, header.kind); break;
            case 3: good = decode_text(section.body, header.comment); break;
            case 4: good = decode_names(section.body, header.source_names); break;
            case 5: good = decode_names(section.body, header.builder_names); break;
            default: if (section.is_required && !unknown) unknown = section.type;
        }
        if (!good) return {contradiction, false};
    }
    if ((flags & ~1u) != 0) return {"its flags " + flags_in_words(flags & ~1u) + " need a newer evb: read it with that", false};
    if (unknown)
        return {"section " + std::to_string(*unknown) + " of its header is required and needs a newer evb: read it with that", false};
    return {};
}

/// Verifies and decodes a whole header.
inline HeaderFlaw decode_header(Bytes bytes, Header& header) {
    const Bytes content{bytes.data, bytes.size - 8};
    if (checksum(content.data, content.size) != le64(bytes.data + content.size)) return {wrong_header};
    if (le16(bytes.data + 8) == 2) return decode_header_2(content, header);
    if (!decode_header_1(content, header)) return {contradiction, false};
    return {};
}

/// Everything about a file that the reading of its records and closing block depends on.
struct Layout {
    std::uint16_t version = format_version;
    /// The file tag: the checksum of the header (FILE-12).
    std::uint64_t tag = 0;
    RunId run_id;
    /// The bytes of the header that the closing block repeats, none in version 1; nothing if the
    /// header was recovered from records.
    std::optional<std::vector<std::uint8_t>> copy = std::vector<std::uint8_t>{};
    /// The run number and the builder of all records; no builder for a merged file. Nothing while
    /// the header is not known.
    std::optional<std::pair<std::uint32_t, std::optional<std::uint16_t>>> owner;

    /// Returns true if run and builder of a record contradict the header (FILE-13).
    bool is_foreign(const Event& event) const noexcept {
        const bool same_id = std::equal(run_id.bytes.begin(), run_id.bytes.begin() + 4, event.run_id.bytes.begin());
        return owner && (event.run != owner->first || !same_id || (owner->second && *owner->second != event.builder));
    }
    const std::array<std::uint8_t, 4>& record_magic() const noexcept {
        return version == 1 ? record_magic_1 : record_magic_2;
    }
    const std::array<std::uint8_t, 4>& index_magic() const noexcept {
        return version == 1 ? index_magic_1 : index_magic_2;
    }
    std::uint64_t record_prefix() const noexcept { return version == 1 ? record_prefix_1 : record_prefix_2; }
    /// Returns the number that the file stores for bytes with the given checksum.
    std::uint64_t seal(std::uint64_t checksum) const noexcept { return version == 1 ? checksum ^ tag : checksum; }
};

/// The bytes of heads that a walk over a file has checked in vain (FILE-39). Each few bytes of a
/// file may be the front of a head of megabytes, so without a limit a small file could take hours.
struct VainChecks {
    std::uint64_t bytes = 0;

    /// Returns true if the walk may check a head of this length at that offset.
    bool affords(std::uint64_t offset, std::uint64_t length) const noexcept {
        constexpr std::uint64_t rate = 16;
        return offset >= std::uint64_t{1} << 56 || bytes + length <= max_head + offset * rate;
    }
};

/// The beginning of a record head. Its checksum is not verified yet, so the lengths only bound the
/// amount to read (FILE-31).
struct Prefix {
    std::uint64_t head_length = 0;
    std::uint64_t length = 0;
    std::uint64_t fragments = 0;
    /// The number of missing sources, in version 1.
    std::uint64_t missing = 0;

    /// Reads the front of a record; `available` is the number of bytes from the record's start on.
    std::optional<Flaw> decode(Bytes front, std::uint64_t available, const Layout& layout) noexcept {
        if (front.is_cut(layout.record_magic())) return Flaw::past_end;
        if (!front.starts_with(layout.record_magic())) return Flaw::magic;
        if (front.size < layout.record_prefix()) return Flaw::past_end;
        const bool first = layout.version == 1;
        head_length = le32(front.data + 4);
        length = le64(front.data + 8);
        fragments = le32(front.data + (first ? 48 : 68));
        missing = first ? le32(front.data + 52) : 0;
        const std::uint64_t least = layout.record_prefix() + fragment_entry * fragments + 8;
        const bool agrees = first ? head_length == least + aligned(2 * missing)
                                  : head_length >= least && head_length <= max_head && head_length % 8 == 0;
        if (fragments > max_sources || missing > max_sources || !agrees || length < head_length || length > max_record)
            return Flaw::lengths;
        if (length > available) return Flaw::past_end;
        if (!first && le64(front.data + 48) != layout.tag) return Flaw::tag;
        return std::nullopt;
    }

    /// Verifies and decodes the whole head. `head` is shorter than the head's length if the file
    /// ends inside the head.
    std::optional<Flaw> record(std::uint64_t offset, Bytes head, const Layout& layout, Event& event) const {
        if (head.size < 8) return Flaw::lengths;
        const Bytes content{head.data, head.size - 8};
        if (layout.seal(checksum(content.data, content.size)) != le64(head.data + content.size))
            return Flaw::head_checksum;
        // The end of the tables may be cut off.
        if (content.size < layout.record_prefix() + fragment_entry * fragments + 2 * missing) return Flaw::lengths;
        event.offset = offset;
        event.length = length;
        event.head_length = head_length;
        event.id = le64(head.data + 16);
        event.epoch = le64(head.data + 24);
        event.triggered_ns = le64(head.data + 32);
        event.refusal.reset();
        event.absent.clear();
        event.tag = 0;
        if (layout.version == 1) first(content, event);
        else if (!second(content, layout, event)) return Flaw::lengths;
        if (!event.refusal && layout.is_foreign(event)) event.refusal = {Flaw::foreign, 0};
        const unsigned flags = le16(head.data + (layout.version == 1 ? 46 : 66));
        const unsigned known = event.missing.empty() ? 0 : 1;
        if (layout.version == 1 ? flags != known : !event.refusal && flags != known) return Flaw::reserved;
        if (head_length + aligned(event.payload_size()) != length) return Flaw::lengths;
        return std::nullopt;
    }

  private:
    void table(const std::uint8_t* at, Event& event) const {
        event.fragments.resize(fragments);
        for (Fragment& fragment : event.fragments) {
            fragment = {le16(at), le64(at + 8), nullptr, le32(at + 4), le64(at + 16), Alignment::unchecked, 0};
            at += fragment_entry;
        }
    }

    void first(Bytes head, Event& event) const {
        event.utc_ns = 0;
        event.run = le32(head.data + 40);
        event.run_id = {};
        event.builder = le16(head.data + 44);
        table(head.data + record_prefix_1, event);
        const std::uint8_t* at = head.data + record_prefix_1 + fragment_entry * fragments;
        event.missing.resize(missing);
        for (MissingSource& source : event.missing) {
            source = {le16(at), Cause::unknown};
            at += 2;
        }
    }

    /// Decodes the rest of a head of version 2; returns false if its sections are malformed.
    bool second(Bytes head, const Layout& layout, Event& event) const {
        event.utc_ns = le64(head.data + 40);
        event.run = le32(head.data + 56);
        event.run_id = {};
        std::copy(head.data + 60, head.data + 64, event.run_id.bytes.begin());
        if (std::equal(head.data + 60, head.data + 64, layout.run_id.bytes.begin())) event.run_id = layout.run_id;
        event.builder = le16(head.data + 64);
        event.missing.clear();
        table(head.data + record_prefix_2, event);
        for (std::uint64_t i = 0; i < fragments; ++i)
            event.fragments[i].alignment = state(head.data[record_prefix_2 + fragment_entry * i + 2]);
        const std::uint64_t end = record_prefix_2 + fragment_entry * fragments;
        Sections sections({head.data + end, head.size - end});
        for (Section section; !sections.at_end();)
            if (!sections.next(section) || !take(section, event)) return false;
        const auto unknown = static_cast<std::uint16_t>(le16(head.data + 66) & ~1u);
        if (unknown != 0) event.refusal = {Flaw::unknown_flags, unknown};
        return true;
    }

    /// Returns the state of a code; those of later versions of evb are not known.
    static Alignment state(std::uint8_t code) noexcept {
        return code < 5 ? static_cast<Alignment>(code) : Alignment::unknown;
    }

    static bool take(const Section& section, Event& event) {
        const Bytes body = section.body;
        switch (section.type) {
            case 1: return sources(body, event.missing);
            case 2: return sources(body, event.absent);
            case 3:
                if (body.size != 8) return false;
                event.tag = le64(body.data);
                return true;
            case 4:
                if (body.size != 4 * event.fragments.size()) return false;
                for (std::size_t i = 0; i < event.fragments.size(); ++i)
                    event.fragments[i].lost_packets = le32(body.data + 4 * i);
                return true;
            default:
                if (section.is_required && !event.refusal) event.refusal = {Flaw::unknown_section, section.type};
                return true;
        }
    }

    static bool sources(Bytes body, std::vector<MissingSource>& list) {
        for (std::uint64_t at = 0; at + 4 <= body.size; at += 4)
            list.push_back({le16(body.data + at), static_cast<Cause>(body.data[at + 2])});
        return body.size % 4 == 0;
    }
};

/// Returns the number of entries of the index in a closing block that fills a file of `length`
/// bytes from `offset` on; nothing if no block has this size, or if the header is not known.
inline std::optional<std::uint64_t> records_between(const Layout& layout, std::uint64_t offset,
                                                    std::uint64_t length) noexcept {
    if (!layout.copy) return std::nullopt;
    const std::uint64_t besides = index_head + layout.copy->size() + index_trailer;
    if (length < offset || length - offset < besides) return std::nullopt;
    const std::uint64_t entries = length - offset - besides;
    if (entries % index_entry != 0 || entries / index_entry > max_records) return std::nullopt;
    return entries / index_entry;
}

/// Returns the size of a closing block; the largest possible one if the header is not known.
inline std::uint64_t block_size(const Layout& layout, std::uint64_t records) noexcept {
    return index_head + index_entry * records + (layout.copy ? layout.copy->size() : max_header) + index_trailer;
}

inline bool heads_index(const Layout& layout, Bytes front, std::uint64_t records) noexcept {
    return front.starts_with(layout.index_magic()) && front.size >= index_head &&
           le32(front.data + 4) == index_entry && le64(front.data + 8) == records;
}

/// Returns true if a closing block that fills the rest of the file begins with `front` at `offset`.
inline bool begins_index(const Layout& layout, Bytes front, std::uint64_t offset, std::uint64_t length) noexcept {
    const auto records = records_between(layout, offset, length);
    return records && heads_index(layout, front, *records);
}

/// Returns true if `front` may begin a torn block of which `left` bytes were written (FILE-35).
inline bool may_begin_torn_index(const Layout& layout, Bytes front, std::uint64_t left) noexcept {
    if (!front.starts_with(layout.index_magic())) return false;
    if (front.size >= 8 && le32(front.data + 4) != index_entry) return false;
    if (front.size < index_head) return true;
    const std::uint64_t records = le64(front.data + 8);
    return records <= max_records && left <= block_size(layout, records);
}

inline void put(std::vector<std::uint8_t>& out, std::uint64_t number, int bytes) {
    for (int byte = 0; byte < bytes; ++byte) out.push_back(static_cast<std::uint8_t>(number >> (8 * byte)));
}

/// Returns the closing block of these records as a writer adds it at `offset`.
inline std::vector<std::uint8_t> encode_block(std::vector<IndexEntry>& entries, std::uint64_t offset,
                                              const Layout& layout) {
    std::sort(entries.begin(), entries.end());
    std::vector<std::uint8_t> out(layout.index_magic().begin(), layout.index_magic().end());
    out.reserve(block_size(layout, entries.size()));
    put(out, index_entry, 4);
    put(out, entries.size(), 8);
    for (const IndexEntry& entry : entries) {
        put(out, entry.event, 8);
        put(out, entry.epoch, 8);
        put(out, entry.offset, 8);
    }
    if (layout.copy) out.insert(out.end(), layout.copy->begin(), layout.copy->end());
    put(out, offset, 8);
    put(out, layout.seal(checksum(out.data(), out.size())), 8);
    out.insert(out.end(), trailer_magic.begin(), trailer_magic.end());
    return out;
}

inline IndexEntry decode_entry(const std::uint8_t* at) noexcept { return {le64(at), le64(at + 8), le64(at + 16)}; }

}  // namespace detail

// ---------------------------------------------------------------------------------------------
// File access
// ---------------------------------------------------------------------------------------------

namespace detail {

/// A failed read. The number 0 stands for a file that has become shorter.
struct ReadFailure {
    int error = 0;
};

/// The bytes of an open file, or of standard input, which is read to its end first.
class Storage {
  public:
    Storage() = default;
    Storage(const Storage&) = delete;
    Storage& operator=(const Storage&) = delete;
    ~Storage() {
        if (map_ != nullptr) ::munmap(map_, length_);
        if (descriptor_ >= 0) ::close(descriptor_);
    }

    /// Opens a regular file; "-" is standard input. Returns 0 or an error number.
    int open(const std::string& path) {
        if (path == "-") return drain();
        // A pipe would keep the program waiting for a writer.
        descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        struct ::stat status {};
        if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) return errno;
        if (!S_ISREG(status.st_mode)) return S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
        length_ = static_cast<std::uint64_t>(status.st_size);
        return 0;
    }

    /// Maps the file. If this fails, the file is read through a buffer.
    void map() noexcept {
        if (memory() != nullptr || length_ == 0) return;
        void* const map = ::mmap(nullptr, length_, PROT_READ, MAP_SHARED, descriptor_, 0);
        if (map != MAP_FAILED) map_ = map;
    }

    /// Returns all bytes, if they are in memory, or null.
    const std::uint8_t* memory() const noexcept {
        return map_ != nullptr ? static_cast<const std::uint8_t*>(map_) : drained_.data();
    }
    /// The length at the time of opening; bytes that a writer appends later are ignored.
    std::uint64_t length() const noexcept { return length_; }

    void read(std::uint64_t offset, std::uint8_t* into, std::uint64_t size) const {
        if (const std::uint8_t* all = memory(); all != nullptr) {
            if (offset > length_ || size > length_ - offset) throw ReadFailure{};
            if (size > 0) std::memcpy(into, all + offset, size);
            return;
        }
        while (size > 0) {
            const ::ssize_t got = ::pread(descriptor_, into, size, static_cast<::off_t>(offset));
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) throw ReadFailure{got < 0 ? errno : 0};
            offset += static_cast<std::uint64_t>(got);
            into += got;
            size -= static_cast<std::uint64_t>(got);
        }
    }

  private:
    int drain() {
        constexpr std::size_t piece = 1 << 20;
        while (true) {
            if (drained_.size() < length_ + piece) drained_.resize(2 * drained_.size() + piece);
            const ::ssize_t got = ::read(STDIN_FILENO, drained_.data() + length_, piece);
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) return errno;
            if (got == 0) return 0;
            length_ += static_cast<std::uint64_t>(got);
        }
    }

    int descriptor_ = -1;
    std::uint64_t length_ = 0;
    void* map_ = nullptr;
    std::vector<std::uint8_t> drained_;
};

/// A moving window over a file. Bytes that it returns stay valid until the next call.
class Window {
  public:
    explicit Window(const Storage& storage) : storage_(&storage) {}

    /// Returns `count` bytes from `offset` on, or fewer at the end of the file. All of them are
    /// held in memory, so the caller must bound `count`.
    Bytes up_to(std::uint64_t offset, std::uint64_t count) {
        const std::uint64_t length = storage_->length();
        count = std::min(count, offset < length ? length - offset : 0);
        if (count == 0) return {};
        if (const std::uint8_t* all = storage_->memory(); all != nullptr) return {all + offset, count};
        if (held(offset) < count) fill(offset, std::max(count, span));
        return {bytes_.get() + (offset - at_), count};
    }

    /// Returns between one and `count` bytes from `offset` on; none at the end of the file.
    Bytes some(std::uint64_t offset, std::uint64_t count) {
        if (storage_->memory() != nullptr) return up_to(offset, count);
        const std::uint64_t here = held(offset);
        return up_to(offset, std::min(count, here > 0 ? here : span));
    }

  private:
    static constexpr std::uint64_t span = 256 * 1024;

    std::uint64_t held(std::uint64_t offset) const noexcept {
        return offset >= at_ && offset - at_ < size_ ? size_ - (offset - at_) : 0;
    }

    void fill(std::uint64_t offset, std::uint64_t count) {
        count = std::min(count, storage_->length() - offset);
        const std::uint64_t kept = held(offset), from = offset - at_;
        // Memory for a large record grows with it and is kept: the next record is often as large.
        if (count > capacity_) {
            std::unique_ptr<std::uint8_t[]> larger(new std::uint8_t[count]);
            if (kept > 0) std::memcpy(larger.get(), bytes_.get() + from, kept);
            bytes_ = std::move(larger);
            capacity_ = count;
        } else if (kept > 0) {
            std::memmove(bytes_.get(), bytes_.get() + from, kept);
        }
        at_ = offset;
        size_ = kept;
        storage_->read(offset + kept, bytes_.get() + kept, count - kept);
        size_ = count;
    }

    const Storage* storage_;
    std::unique_ptr<std::uint8_t[]> bytes_;
    std::uint64_t capacity_ = 0;
    std::uint64_t at_ = 0;
    std::uint64_t size_ = 0;
};

/// An open file: all that its readers share.
struct Opened {
    std::string path;
    Storage storage;
    Options options;
    Header header;
    std::optional<Recovery> recovery;
    /// The offset of the first record: the length of the header, unless it was recovered from
    /// records.
    std::uint64_t first_record = 0;
    Layout layout;
    IndexState index_state = IndexState::absent;
    std::uint64_t index_offset = 0;
    std::uint64_t index_records = 0;

    /// Opens a file, reads or recovers its header, and verifies the checksum of its index, unless
    /// only the header is needed.
    Opened(std::string at, const Options& how, bool header_only = false) : path(std::move(at)), options(how) {
        if (const int error = storage.open(path); error != 0) throw Error(file_finding("open", path, error));
        try {
            read_header();
            if (header_only) return;
            find_index();
        } catch (const ReadFailure& failure) {
            throw Error(file_finding("read", path, failure.error));
        }
        if (options.map && index_state == IndexState::present) storage.map();
    }

    /// Returns the offset beyond which the file has no records.
    std::uint64_t records_end() const noexcept {
        return index_state == IndexState::present ? index_offset : storage.length();
    }

    IndexEntry entry(std::uint64_t place) const {
        std::uint8_t bytes[index_entry];
        storage.read(index_offset + index_head + index_entry * place, bytes, index_entry);
        return decode_entry(bytes);
    }

    Finding finding(Kind kind, std::uint64_t offset, std::uint64_t length, std::optional<std::uint64_t> event) const {
        Finding found;
        found.kind = kind;
        found.path = path;
        found.offset = offset;
        found.length = length;
        found.event = event;
        return found;
    }

    Finding damaged(std::uint64_t offset, std::uint64_t length, std::optional<std::uint64_t> event, Flaw flaw,
                    std::uint16_t number = 0) const {
        Finding found = finding(Kind::damaged, offset, length, event);
        found.flaw = flaw;
        if (flaw == Flaw::payload_checksum) found.source = number;
        if (flaw == Flaw::unknown_flags || flaw == Flaw::unknown_section) found.unknown = number;
        const std::string of = event ? " of event " + std::to_string(*event) : "";
        found.text = path + " at byte " + std::to_string(offset) + ": damaged record" + of + ": " +
                     in_words(flaw, number) + "; " + in_words(length) + " skipped, other events can be read; " + remedy(flaw);
        return found;
    }

    /// Returns the finding in place of an event that needs a newer evb.
    std::optional<Finding> refused(const Event& event) const {
        if (!event.refusal) return std::nullopt;
        return damaged(event.offset, event.length, event.id, event.refusal->first, event.refusal->second);
    }

    Finding torn(std::uint64_t offset, std::uint64_t length, std::optional<std::uint64_t> event) const {
        Finding found = finding(Kind::torn_tail, offset, length, event);
        const std::string of = event ? " of event " + std::to_string(*event) : "";
        found.text = path + " at byte " + std::to_string(offset) + ": torn tail of " + in_words(length) + of +
                     ", as the builder was stopped while it wrote; all records before it are whole; "
                     "verify all files of the run to see if the event is elsewhere";
        return found;
    }

    Finding too_large(const Event& event) const {
        Finding found = finding(Kind::too_large, event.offset, event.length, event.id);
        found.text = path + " at byte " + std::to_string(event.offset) + ": event " + std::to_string(event.id) +
                     " has " + in_words(event.length) + ", more than this program reads into memory (" +
                     in_words(options.record_limit) +
                     "); the file is intact: read this event with a program that has a larger record limit";
        return found;
    }

    Finding wrong_index(const IndexEntry& entry) const {
        Finding found = finding(Kind::wrong_index, entry.offset, 0, entry.event);
        found.text = path + ": the index of the file points to byte " + std::to_string(entry.offset) +
                     " for event " + std::to_string(entry.event) + ", but another record stands there; the records are not affected: "
                     "`evbd merge` makes a file with a right index";
        return found;
    }

    /// Reads the head of the record at `offset`, in a file whose records end at `end`.
    std::optional<Flaw> head(Window& window, std::uint64_t offset, std::uint64_t end, Event& event,
                             VainChecks* vain = nullptr) const {
        const std::uint64_t available = end > offset ? end - offset : 0;
        return head(window, offset, available, layout, event, vain);
    }

    /// Reads the payloads of a record whose head is intact.
    std::optional<Finding> payloads(Window& window, Event& event, Read read) const {
        if (read == Read::heads) return std::nullopt;
        if (event.length > options.record_limit) return too_large(event);
        const Bytes record = window.up_to(event.offset, event.length);
        const std::uint8_t* at = record.data + event.head_length;
        for (Fragment& fragment : event.fragments) {
            fragment.data = at;
            at += fragment.size;
        }
        if (read == Read::unchecked) return std::nullopt;
        for (const Fragment& fragment : event.fragments)
            if (checksum(fragment.data, fragment.size) != fragment.checksum)
                return damaged(event.offset, event.length, event.id, Flaw::payload_checksum, fragment.source);
        if (Bytes{at, static_cast<std::uint64_t>(record.data + record.size - at)}.all_zero()) return std::nullopt;
        return damaged(event.offset, event.length, event.id, Flaw::padding);
    }

    /// Verifies the payloads of a record of any size, in little memory.
    std::optional<Finding> verify(Window& window, const Event& event) const {
        std::uint64_t at = event.offset + event.head_length;
        for (const Fragment& fragment : event.fragments) {
            Crc crc;
            for (std::uint64_t left = fragment.size; left > 0;) {
                const Bytes piece = window.some(at, left);
                if (piece.size == 0) return damaged(event.offset, event.length, event.id, Flaw::past_end);
                crc.update(piece.data, piece.size);
                at += piece.size;
                left -= piece.size;
            }
            if (crc.value() != fragment.checksum)
                return damaged(event.offset, event.length, event.id, Flaw::payload_checksum, fragment.source);
        }
        if (window.up_to(at, event.offset + event.length - at).all_zero()) return std::nullopt;
        return damaged(event.offset, event.length, event.id, Flaw::padding);
    }

    /// Reads the event to which an index entry points (FILE-43).
    std::optional<Finding> at(Window& window, const IndexEntry& entry, Event& event) const {
        try {
            if (const auto flaw = head(window, entry.offset, records_end(), event))
                return damaged(entry.offset, 0, entry.event, *flaw);
            if (auto refusal = refused(event)) return refusal;
            if (event.id != entry.event || event.epoch != entry.epoch) return wrong_index(entry);
            return payloads(window, event, options.read);
        } catch (const ReadFailure& failure) {
            return file_finding("read", path, failure.error);
        }
    }

    /// Reads the front of the record at `offset` alone.
    std::optional<Flaw> front(Window& window, std::uint64_t offset, Prefix& prefix) const {
        const std::uint64_t available = offset < records_end() ? records_end() - offset : 0;
        const Bytes bytes = window.up_to(offset, std::min(layout.record_prefix(), available));
        return prefix.decode(bytes, available, layout);
    }

  private:
    static std::optional<Flaw> head(Window& window, std::uint64_t offset, std::uint64_t available,
                                    const Layout& layout, Event& event, VainChecks* vain) {
        Prefix prefix;
        const Bytes front = window.up_to(offset, std::min(layout.record_prefix(), available));
        if (const auto flaw = prefix.decode(front, available, layout)) return flaw;
        if (vain && !vain->affords(offset, prefix.head_length)) return Flaw::unchecked;
        const auto flaw = prefix.record(offset, window.up_to(offset, prefix.head_length), layout, event);
        if (flaw && vain) vain->bytes += prefix.head_length;
        return flaw;
    }

    /// Reads the header, or recovers it if it is damaged (FILE-36, FILE-37).
    void read_header() {
        Window window(storage);
        const HeaderFlaw flaw = whole_header(window);
        if (!flaw) return;
        if (!flaw.is_damage || is_of_later_version(window)) throw Error(header_finding(path, flaw.text));
        if (copied_header(window)) return;
        const Bytes front = window.up_to(0, 16);
        const bool first = front.starts_with(file_magic) && front.size >= 10 && le16(front.data + 8) == 1;
        if (first || !header_from_records(window)) throw Error(header_finding(path, flaw.text));
    }

    HeaderFlaw whole_header(Window& window) {
        const auto [size, flaw] = header_length(window.up_to(0, 16));
        if (flaw) return flaw;
        const Bytes bytes = window.up_to(0, size);
        if (bytes.size < size) return {short_header};
        const HeaderFlaw wrong = decode_header(bytes, header);
        if (!wrong) take_header(bytes);
        return wrong;
    }

    void take_header(Bytes bytes) {
        first_record = bytes.size;
        layout.version = header.version;
        layout.tag = le64(bytes.data + bytes.size - 8);
        layout.run_id = header.run_id;
        layout.owner = std::make_pair(header.run, header.builder);
        if (header.version != 1) layout.copy->assign(bytes.data, bytes.data + bytes.size);
    }

    /// Returns true if a header of an unknown version is intact. Later versions keep the place of
    /// the length and that of the checksum.
    bool is_of_later_version(Window& window) const {
        const Bytes front = window.up_to(0, 16);
        if (front.size < 16 || !front.starts_with(file_magic)) return false;
        const std::uint16_t version = le16(front.data + 8);
        if (version == 1 || version == 2) return false;
        const std::uint64_t length = std::min<std::uint64_t>(le32(front.data + 12), max_header);
        const Bytes bytes = window.up_to(0, length);
        return length >= 8 && bytes.size == length &&
               checksum(bytes.data, length - 8) == le64(bytes.data + length - 8);
    }

    /// Returns the offset of the closing block, from the last bytes of the file; nothing if these
    /// do not end one.
    std::optional<std::pair<std::uint64_t, std::uint64_t>> trailer() const {
        const std::uint64_t length = storage.length();
        if (length < index_trailer) return std::nullopt;
        std::uint8_t bytes[index_trailer];
        storage.read(length - index_trailer, bytes, index_trailer);
        if (!Bytes{bytes + 16, 8}.starts_with(trailer_magic)) return std::nullopt;
        return std::make_pair(le64(bytes), le64(bytes + 8));
    }

    /// Returns true if a closing block of version 2 may stand at this offset.
    bool has_room_for_block(std::uint64_t offset) const noexcept {
        const std::uint64_t length = storage.length();
        return offset % alignment == 0 && offset <= length &&
               length - offset >= index_head + min_header + index_trailer;
    }

    /// Takes the copy of the header in the closing block; returns false if there is none.
    bool copied_header(Window& window) {
        const auto found = trailer();
        if (!found || !has_room_for_block(found->first)) return false;
        const Bytes front = window.up_to(found->first, index_head);
        if (!front.starts_with(index_magic_2) || le32(front.data + 4) != index_entry) return false;
        const std::uint64_t records = le64(front.data + 8), left = storage.length() - found->first;
        const std::uint64_t besides = index_head + index_entry * std::min(records, max_records) + index_trailer;
        if (records > max_records || left < besides + min_header || left - besides > max_header) return false;
        const Bytes copy = window.up_to(found->first + besides - index_trailer, left - besides);
        const auto [size, flaw] = header_length({copy.data, std::min<std::uint64_t>(copy.size, 16)});
        if (flaw || size != copy.size) return false;
        Header other;
        const HeaderFlaw wrong = decode_header(copy, other);
        if (wrong && !wrong.is_damage) throw Error(header_finding(path, wrong.text));
        if (wrong || other.version == 1) return false;
        header = std::move(other);
        take_header(copy);
        recovery = Recovery::closing_block;
        return true;
    }

    /// The records with one file tag.
    struct Tagged {
        std::uint64_t bytes = 0;
        /// The first record with the tag.
        Event first;
        std::optional<std::uint16_t> builder;
        std::uint64_t epoch = 0;
    };

    /// Recovers the header from the heads of records; returns false if there is none.
    bool header_from_records(Window& window) {
        constexpr std::size_t limit = 1024;
        std::map<std::uint64_t, Tagged> tags;
        Event event;
        VainChecks vain;
        for (std::uint64_t at = 0; next_record(window, vain, at, event); at += event.length) {
            const std::uint64_t tag = layout.tag;
            if (tags.size() >= limit && tags.count(tag) == 0) continue;
            Tagged& tagged = tags.try_emplace(tag, Tagged{0, event, event.builder, event.epoch}).first->second;
            tagged.bytes += event.length;
            if (tagged.builder != event.builder) tagged.builder.reset();
            tagged.epoch = std::min(tagged.epoch, event.epoch);
        }
        const auto less = [](const auto& a, const auto& b) {
            if (a.second.bytes != b.second.bytes) return a.second.bytes < b.second.bytes;
            return a.second.first.offset > b.second.first.offset;
        };
        const auto most = std::max_element(tags.begin(), tags.end(), less);
        if (most == tags.end()) return false;
        const Event& first = most->second.first;
        header = Header{};
        header.run = first.run;
        header.run_id = layout.run_id = first.run_id;
        layout.tag = most->first;
        layout.owner = std::make_pair(first.run, most->second.builder);
        header.epoch = most->second.epoch;
        header.builder = most->second.builder;
        first_record = first.offset;
        layout.copy.reset();
        recovery = Recovery::records;
        return true;
    }

    /// Finds the first record of version 2 from `at` on that is intact but for its tag. Sets `at` to
    /// its offset, and the layout's tag to that of the record.
    bool next_record(Window& window, VainChecks& vain, std::uint64_t& at, Event& event) {
        layout = Layout{};
        const std::uint64_t length = storage.length();
        for (at = aligned(at); at < length; at += alignment) {
            at = next_magic(window, at, length);
            const Bytes front = window.up_to(at, record_prefix_2);
            if (front.size < 56) return false;
            layout.tag = le64(front.data + 48);
            if (!head(window, at, length - at, layout, event, &vain)) return true;
        }
        return false;
    }

  public:
    /// Returns the next offset with a magic number, or with fewer than 8 bytes behind it.
    std::uint64_t next_magic(Window& window, std::uint64_t at, std::uint64_t end) const {
        while (at < end) {
            const Bytes piece = window.some(at, end - at);
            if (piece.size < alignment) return at;
            for (std::uint64_t i = 0; i + alignment <= piece.size; i += alignment, at += alignment) {
                const Bytes here{piece.data + i, alignment};
                if (here.starts_with(layout.record_magic()) || here.starts_with(layout.index_magic())) return at;
            }
        }
        return at;
    }

  private:
    /// Finds the index by the last bytes of the file (FILE-41, FILE-44).
    void find_index() {
        const std::uint64_t length = storage.length();
        index_offset = length;
        const auto found = trailer();
        if (!found || found->first < first_record) return;
        const auto [offset, sealed] = *found;
        if (!layout.copy) {
            if (!has_room_for_block(offset)) return;
            index_offset = offset;
            index_state = IndexState::damaged;
            return;
        }
        const auto records = records_between(layout, offset, length);
        if (!records) return;
        index_offset = offset;
        index_records = *records;
        index_state = index_is_intact(sealed) ? IndexState::present : IndexState::damaged;
    }

    bool index_is_intact(std::uint64_t sealed) const {
        Window window(storage);
        if (!heads_index(layout, window.up_to(index_offset, index_head), index_records)) return false;
        Crc crc;
        const std::uint64_t end = storage.length() - 16;
        for (std::uint64_t at = index_offset; at < end;) {
            const Bytes piece = window.some(at, end - at);
            if (piece.size == 0) return false;
            crc.update(piece.data, piece.size);
            at += piece.size;
        }
        if (layout.seal(crc.value()) != sealed) return false;
        const auto& header_bytes = *layout.copy;
        const std::uint64_t at = index_offset + index_head + index_entry * index_records;
        const Bytes copy = window.up_to(at, header_bytes.size());
        return copy.size == header_bytes.size() && std::equal(header_bytes.begin(), header_bytes.end(), copy.data);
    }
};

/// Walks over the heads of a file's records, and finds the next intact record after damage.
class Scan {
  public:
    explicit Scan(std::shared_ptr<const Opened> file)
        : file_(std::move(file)), window_(file_->storage), next_(file_->first_record), unbroken_(file_->layout.copy) {}

    /// Reads the next head into `item`, or the finding in its place; returns false after the last.
    bool next(Item& item) {
        item.finding.reset();
        try {
            return step(item);
        } catch (const ReadFailure& failure) {
            next_.reset();
            item.finding = file_finding("read", file_->path, failure.error);
            return true;
        }
    }

    /// Reads the payloads of the event that `next` has just returned.
    void payloads(Item& item, Read read) {
        try {
            item.finding = file_->payloads(window_, item.event, read);
        } catch (const ReadFailure& failure) {
            item.finding = file_finding("read", file_->path, failure.error);
        }
    }

    /// Verifies the payloads of the event that `next` has just returned.
    void verify(Item& item) {
        try {
            item.finding = file_->verify(window_, item.event);
        } catch (const ReadFailure& failure) {
            item.finding = file_finding("read", file_->path, failure.error);
        }
    }

  private:
    enum class IndexHere { no, ends, wrong };

    bool step(Item& item) {
        const std::uint64_t end = file_->records_end();
        if (!next_ || *next_ >= end) return false;
        const std::uint64_t offset = *next_;
        next_.reset();
        const auto flaw = file_->head(window_, offset, end, item.event, &vain_);
        if (!flaw) {
            next_ = offset + item.event.length;
            keep(item.event);
            item.finding = file_->refused(item.event);
            return true;
        }
        const IndexHere here = index_at(offset);
        if (here == IndexHere::ends) return false;
        item.finding = damage(offset, here == IndexHere::wrong ? Flaw::index : *flaw);
        return true;
    }

    void keep(const Event& event) {
        const bool wanted = unbroken_ && file_->index_state != IndexState::present;
        // One entry more than an index can hold is enough to know that no index matches.
        if (wanted && entries_.size() <= max_records) entries_.push_back({event.id, event.epoch, event.offset});
    }

    /// Looks for the file's index at `offset`, where no valid record begins (FILE-35).
    IndexHere index_at(std::uint64_t offset) {
        const std::uint64_t length = file_->storage.length();
        const IndexState state = file_->index_state;
        const Bytes front = window_.up_to(offset, index_head);
        if (state == IndexState::present) return IndexHere::no;
        const bool fills = begins_index(file_->layout, front, offset, length);
        const bool may_be_torn = may_begin_torn_index(file_->layout, front, length - offset);
        if (state == IndexState::damaged && (offset == file_->index_offset || fills)) return IndexHere::ends;
        if (!front.starts_with(file_->layout.index_magic())) return IndexHere::no;
        if (state == IndexState::absent && (unbroken_ ? is_torn_index(offset) : may_be_torn))
            return IndexHere::ends;
        return IndexHere::wrong;
    }

    /// Returns true if the file ends with the beginning of the index of exactly these records, or
    /// with zeros in place of the index's content.
    bool is_torn_index(std::uint64_t offset) {
        const std::uint64_t length = file_->storage.length();
        if (entries_.size() > max_records || length - offset > block_size(file_->layout, entries_.size())) return false;
        const std::vector<std::uint8_t> index = encode_block(entries_, offset, file_->layout);
        const Bytes found = window_.up_to(offset, length - offset);
        std::uint64_t same = 0;
        while (same < found.size && found.data[same] == index[same]) ++same;
        if (same == found.size) return true;
        return same >= index_head && Bytes{found.data + same, found.size - same}.all_zero();
    }

    /// Describes the damage at `offset`, and sets the offset at which reading continues.
    Finding damage(std::uint64_t offset, Flaw flaw) {
        const auto found = resume(offset + alignment);
        const std::uint64_t end = found ? *found : file_->records_end();
        next_ = found;
        unbroken_ = false;
        const bool torn = !found && file_->index_state == IndexState::absent && flaw != Flaw::index;
        if (!torn) return file_->damaged(offset, end - offset, std::nullopt, flaw);
        Event event;
        const bool named = !file_->head(window_, offset, ~std::uint64_t{0}, event);
        return file_->torn(offset, end - offset, named ? std::optional<std::uint64_t>(event.id) : std::nullopt);
    }

    /// Returns the offset of the next intact record head, or index, from `start` on (FILE-33).
    std::optional<std::uint64_t> resume(std::uint64_t start) {
        const std::uint64_t end = file_->records_end();
        Event event;
        for (std::uint64_t at = start; at < end;) {
            at = file_->next_magic(window_, at, end);
            if (at >= end) return std::nullopt;
            const Bytes front = window_.up_to(at, index_head);
            if (front.size < alignment) return std::nullopt;
            if (begins_index(file_->layout, front, at, file_->storage.length()) || !file_->head(window_, at, end, event, &vain_))
                return at;
            at += alignment;
        }
        return std::nullopt;
    }

    std::shared_ptr<const Opened> file_;
    Window window_;
    /// The offset at which the next record should begin; none after the last record.
    std::optional<std::uint64_t> next_;
    /// The index entries of the records so far, if the file has no intact index.
    std::vector<IndexEntry> entries_;
    /// True if no damage was found so far and the header is known, so that `entries_` and the
    /// header determine the closing block.
    bool unbroken_;
    VainChecks vain_;
};

}  // namespace detail

// ---------------------------------------------------------------------------------------------
// One file
// ---------------------------------------------------------------------------------------------

/// Lets `for` walk over the items of a reader. Every item is valid until the next one is read.
template <class Reader>
class ItemIterator {
  public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Item;
    using difference_type = std::ptrdiff_t;
    using pointer = const Item*;
    using reference = const Item&;

    ItemIterator() = default;
    explicit ItemIterator(Reader& reader) : reader_(&reader), item_(reader.next()) {}
    reference operator*() const noexcept { return *item_; }
    pointer operator->() const noexcept { return item_; }
    ItemIterator& operator++() {
        item_ = reader_->next();
        return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const ItemIterator& a, const ItemIterator& b) noexcept { return a.item_ == b.item_; }
    friend bool operator!=(const ItemIterator& a, const ItemIterator& b) noexcept { return a.item_ != b.item_; }

  private:
    Reader* reader_ = nullptr;
    const Item* item_ = nullptr;
};

/// The events of a file in the order in which they were written, made by `EventFile::events`.
/// Damage is an item of its own, after which reading continues; a torn tail is the last item.
class Events {
  public:
    Events(std::shared_ptr<const detail::Opened> file, Read read) : scan_(std::move(file)), read_(read) {}

    /// Returns the next event or finding, valid until the next call; null after the last.
    const Item* next() {
        if (!scan_.next(item_)) return nullptr;
        if (item_) scan_.payloads(item_, read_);
        return &item_;
    }

    ItemIterator<Events> begin() { return ItemIterator<Events>(*this); }
    ItemIterator<Events> end() { return {}; }

  private:
    detail::Scan scan_;
    Read read_;
    Item item_;
};

/// An open event file. A copy shares the open file.
class EventFile {
  public:
    /// Opens a file, reads its header, and verifies the checksum of its index. The path "-" is
    /// standard input, which is read into memory up to its end.
    ///
    /// Throws `Error` if the file cannot be opened or its header is unusable.
    explicit EventFile(const std::string& path, const Options& options = {})
        : file_(std::make_shared<const detail::Opened>(path, options)),
          window_(std::make_shared<detail::Window>(file_->storage)) {}

    /// Shares a file that this header has opened.
    explicit EventFile(std::shared_ptr<const detail::Opened> file)
        : file_(std::move(file)), window_(std::make_shared<detail::Window>(file_->storage)) {}

    const std::string& path() const noexcept { return file_->path; }
    const Header& header() const noexcept { return file_->header; }
    /// Returns how the header was recovered; nothing if it is not damaged.
    std::optional<Recovery> recovery() const noexcept { return file_->recovery; }
    /// Returns the size that the file had when it was opened, in bytes.
    std::uint64_t size() const noexcept { return file_->storage.length(); }
    IndexState index_state() const noexcept { return file_->index_state; }

    /// Returns all events in file order. Several such walks may be under way at a time.
    Events events() const { return events(file_->options.read); }
    Events events(Read read) const { return Events(file_, read); }

    /// Finds an event by its id; of copies from several epochs, the one of the highest epoch.
    /// Returns false if the file does not have it. Otherwise `item` holds the event, or the finding
    /// in its place; it is valid until the next lookup. Without an intact index, the first lookup
    /// scans the file.
    bool event(std::uint64_t id, Item& item) { return lookup(id, ~std::uint64_t{0}, false, item); }

    /// Finds the copy of an event that was built in the given epoch.
    bool event_in_epoch(std::uint64_t id, std::uint64_t epoch, Item& item) { return lookup(id, epoch, true, item); }

    /// Reads the event to which an index entry points.
    void event_at(const IndexEntry& entry, Item& item) { item.finding = file_->at(*window_, entry, item.event); }

    /// Returns true if the file has an intact index that leaves out no record: an index is a help
    /// and never the truth (FILE-45). The first call reads the heads of all records. Throws `Error`
    /// if the file cannot be read.
    bool has_whole_index() {
        if (file_->index_state != IndexState::present) return false;
        if (has_whole_index_) return *has_whole_index_;
        const std::vector<IndexEntry> told = told_entries(0, file_->index_records);
        std::vector<bool> found(told.size());
        bool is_whole = true;
        std::vector<Region> damaged;
        detail::Scan scan(file_);
        for (Item item; scan.next(item);) {
            if (item) {
                const IndexEntry own{item.event.id, item.event.epoch, item.event.offset};
                const auto place = std::lower_bound(told.begin(), told.end(), own);
                if (place == told.end() || own < *place) is_whole = false;
                else found[static_cast<std::size_t>(place - told.begin())] = true;
            } else if (item.finding->kind == Kind::file) {
                throw Error(*item.finding);
            } else {
                damaged.push_back({item.finding->offset, item.finding->length, false});
            }
        }
        has_whole_index_ = is_whole && leads_to_damage(told, found, damaged);
        return *has_whole_index_;
    }

    /// Takes over what is known of the index of the same file, which was open before.
    void trust_index(bool is_whole) { has_whole_index_ = is_whole; }

    /// Returns the number of index entries: without an index that is whole, those of the records.
    /// Throws `Error` if the file cannot be read.
    std::uint64_t index_size() {
        scan_if_needed();
        return scanned_ ? scanned_->size() : file_->index_records;
    }

    /// Returns at most `count` index entries from position `place` on, in the order of event id,
    /// epoch, offset. Throws `Error` if the file cannot be read.
    std::vector<IndexEntry> index_entries(std::uint64_t place, std::uint64_t count) {
        const std::uint64_t all = index_size();
        place = std::min(place, all);
        count = std::min(count, all - place);
        std::vector<IndexEntry> entries;
        entries.reserve(count);
        if (scanned_) {
            const auto first = scanned_->begin() + static_cast<std::ptrdiff_t>(place);
            entries.assign(first, first + static_cast<std::ptrdiff_t>(count));
            return entries;
        }
        return told_entries(place, count);
    }

  private:
    /// A part of the file that cannot be read.
    struct Region {
        std::uint64_t offset;
        std::uint64_t length;
        /// True if an index entry points into it.
        bool has_entry;
    };

    /// Returns true if the entries that were not found are those of damaged records: all lie in
    /// damaged regions, each region has one, and their heads fit into the damaged bytes.
    bool leads_to_damage(const std::vector<IndexEntry>& told, const std::vector<bool>& found,
                         std::vector<Region>& damaged) const {
        std::uint64_t heads = 0, all = 0;
        for (const Region& region : damaged) all += region.length;
        const auto begins_after = [](std::uint64_t at, const Region& region) { return at < region.offset; };
        try {
            for (std::size_t i = 0; i < told.size(); ++i) {
                if (found[i]) continue;
                const std::uint64_t at = told[i].offset;
                auto region = std::upper_bound(damaged.begin(), damaged.end(), at, begins_after);
                if (region == damaged.begin() || at - (--region)->offset >= region->length) return false;
                region->has_entry = true;
                detail::Prefix prefix;
                if (file_->front(*window_, at, prefix)) continue;
                heads += prefix.head_length;
                if (!detail::VainChecks{}.affords(all, heads)) return false;
            }
        } catch (const detail::ReadFailure& failure) {
            throw Error(detail::file_finding("read", path(), failure.error));
        }
        return std::all_of(damaged.begin(), damaged.end(), [](const Region& region) { return region.has_entry; });
    }

    /// Returns entries as the file's own index has them.
    std::vector<IndexEntry> told_entries(std::uint64_t place, std::uint64_t count) const {
        std::vector<IndexEntry> entries;
        entries.reserve(count);
        std::vector<std::uint8_t> bytes(count * detail::index_entry);
        try {
            const std::uint64_t at = file_->index_offset + detail::index_head + detail::index_entry * place;
            file_->storage.read(at, bytes.data(), bytes.size());
        } catch (const detail::ReadFailure& failure) {
            throw Error(detail::file_finding("read the index of", path(), failure.error));
        }
        for (std::uint64_t i = 0; i < count; ++i)
            entries.push_back(detail::decode_entry(bytes.data() + detail::index_entry * i));
        return entries;
    }

    /// Collects the index entries of all intact records, if the file's own index cannot be used.
    void scan_if_needed() {
        if (scanned_ || has_whole_index()) return;
        std::vector<IndexEntry> entries;
        detail::Scan scan(file_);
        // Damage is no error of a lookup: the walk over the file reports it.
        for (Item item; scan.next(item);) {
            if (item) entries.push_back({item.event.id, item.event.epoch, item.event.offset});
            else if (item.finding->kind == Kind::file) throw Error(*item.finding);
        }
        std::sort(entries.begin(), entries.end());
        scanned_ = std::make_shared<const std::vector<IndexEntry>>(std::move(entries));
    }

    /// Finds the copy with the highest epoch that is at most `epoch`.
    bool lookup(std::uint64_t id, std::uint64_t epoch, bool exact, Item& item) {
        item.finding.reset();
        try {
            std::uint64_t low = 0, high = index_size();
            while (low < high) {
                const std::uint64_t middle = low + (high - low) / 2;
                const IndexEntry here = entry(middle);
                if (std::tie(here.event, here.epoch) <= std::tie(id, epoch)) low = middle + 1;
                else high = middle;
            }
            if (low == 0) return false;
            const IndexEntry found = entry(low - 1);
            if (found.event != id || (exact && found.epoch != epoch)) return false;
            event_at(found, item);
        } catch (const Error& error) {
            item.finding = error.finding();
        } catch (const detail::ReadFailure& failure) {
            item.finding = detail::file_finding("read the index of", path(), failure.error);
        }
        return true;
    }

    IndexEntry entry(std::uint64_t place) const { return scanned_ ? (*scanned_)[place] : file_->entry(place); }

    std::shared_ptr<const detail::Opened> file_;
    std::shared_ptr<detail::Window> window_;
    std::shared_ptr<const std::vector<IndexEntry>> scanned_;
    std::optional<bool> has_whole_index_;
};

namespace detail {

/// Compares two paths by their names, in which numbers count by their values: file 10000 follows
/// file 9999 (FILE-54).
inline bool by_number(const std::string& a, const std::string& b) {
    const std::string one = a.substr(a.rfind('/') + 1), other = b.substr(b.rfind('/') + 1);
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    // Returns the part of a name that begins at `at`: a number without its leading zeros, or text.
    const auto part = [&](const std::string& name, std::size_t& at) {
        const bool is_number = is_digit(name[at]);
        std::size_t begin = at;
        while (at < name.size() && is_digit(name[at]) == is_number) ++at;
        if (is_number)
            while (begin < at && name[begin] == '0') ++begin;
        return std::make_tuple(!is_number, is_number ? at - begin : 0, name.substr(begin, at - begin));
    };
    std::size_t i = 0, j = 0;
    while (i < one.size() && j < other.size()) {
        const auto left = part(one, i), right = part(other, j);
        if (left != right) return left < right;
    }
    if (i < one.size() || j < other.size()) return j < other.size();
    return a < b;
}

}  // namespace detail

/// Returns the event files for which a path stands: a directory stands for all `*.evb` in it,
/// sorted by name, and any other path for itself. Throws `Error` if the path does not exist.
inline std::vector<std::string> files_at(const std::string& path) {
    if (path == "-") return {path};
    struct ::stat status {};
    if (::stat(path.c_str(), &status) != 0) throw Error(detail::file_finding("open", path, errno));
    if (!S_ISDIR(status.st_mode)) return {path};
    std::vector<std::string> found;
    try {
        for (const auto& entry : std::filesystem::directory_iterator(path))
            if (entry.path().extension() == ".evb") found.push_back(entry.path().string());
    } catch (const std::filesystem::filesystem_error& error) {
        throw Error(detail::file_finding("list", path, error.code().value()));
    }
    std::sort(found.begin(), found.end(), detail::by_number);
    return found;
}

namespace detail {

/// Returns the event files at the given paths, each once, in the order of the paths.
inline std::vector<std::string> distinct_files(const std::vector<std::string>& paths) {
    std::set<std::string> seen;
    std::vector<std::string> files;
    for (const std::string& path : paths)
        for (const std::string& file : files_at(path)) {
            std::error_code error;
            const std::string real = file == "-" ? file : std::filesystem::canonical(file, error).string();
            // A link that leads nowhere is listed as unreadable like other files.
            if (seen.insert(error ? file : real).second) files.push_back(file);
        }
    if (!files.empty()) return files;
    Finding finding;
    finding.text = "no event files (*.evb) at ";
    for (const std::string& path : paths) finding.text += (&path == &paths.front() ? "" : ", ") + path;
    finding.text += "; give the directory of a sink, or its files";
    throw Error(finding);
}

}  // namespace detail

// ---------------------------------------------------------------------------------------------
// Which files are of one run
// ---------------------------------------------------------------------------------------------

/// A run found in files.
struct FoundRun {
    std::uint32_t number = 0;
    /// The identity of the run. If all headers were recovered from records, its first 8 digits.
    RunId id;
    /// The lowest epoch in the headers of the files.
    std::uint64_t epoch = 0;
    /// The begin of the run in nanoseconds since 1970 (UTC); 0: unknown.
    std::uint64_t begun_unix_ns = 0;
    std::vector<std::string> files;

    /// Returns number, id, begin and number of files in words.
    std::string text() const;
};

/// Returns a time in nanoseconds since 1970 (UTC) in words, such as
/// "2026-05-04T10:11:12.000000345Z".
inline std::string utc_in_words(std::uint64_t unix_ns) {
    const std::uint64_t seconds = unix_ns / 1000000000, nanos = unix_ns % 1000000000;
    // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms": `civil_from_days`.
    const std::uint64_t days = seconds / 86400 + 719468, era = days / 146097, in_era = days % 146097;
    const std::uint64_t year = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
    const std::uint64_t day = in_era - (365 * year + year / 4 - year / 100), of_march = (5 * day + 2) / 153;
    const std::uint64_t month = of_march < 10 ? of_march + 3 : of_march - 9;
    char text[80];
    std::snprintf(text, sizeof text, "%04llu-%02llu-%02lluT%02llu:%02llu:%02llu.%09lluZ",
                  static_cast<unsigned long long>(era * 400 + year + (month <= 2 ? 1 : 0)),
                  static_cast<unsigned long long>(month),
                  static_cast<unsigned long long>(day - (153 * of_march + 2) / 5 + 1),
                  static_cast<unsigned long long>(seconds / 3600 % 24),
                  static_cast<unsigned long long>(seconds / 60 % 60),
                  static_cast<unsigned long long>(seconds % 60), static_cast<unsigned long long>(nanos));
    return text;
}

inline std::string FoundRun::text() const {
    std::string words = "run " + std::to_string(number) + " (";
    words += id.known() ? id.short_text() + ", " : "id unknown, epoch " + std::to_string(epoch) + ", ";
    if (begun_unix_ns != 0) words += "begun " + utc_in_words(begun_unix_ns) + ", ";
    return words + std::to_string(files.size()) + (files.size() == 1 ? " file)" : " files)");
}

namespace detail {

/// A file, and what its header says of the run.
struct Member {
    std::string path;
    Header header;
    /// True if only the first digits of the run id are known.
    bool has_digits_only = false;
    /// The file, if it is standard input, which cannot be opened again.
    std::shared_ptr<const Opened> opened;
};

/// Opens a file of a run again.
inline std::shared_ptr<const Opened> open_again(const Member& member, const Options& options) {
    return member.opened ? member.opened : std::make_shared<const Opened>(member.path, options);
}

/// Returns the error about runs with this text.
inline Error runs_error(std::string text) {
    Finding finding;
    finding.kind = Kind::foreign;
    finding.text = std::move(text);
    return Error(finding);
}

/// Divides files without a run id into runs: into groups that have no epoch in common (FILE-61).
inline std::vector<std::vector<Member>> linked(std::vector<Member> members, const Options& options) {
    struct Linked {
        std::vector<Member> members;
        std::set<std::uint64_t> epochs;
    };
    std::map<std::uint64_t, std::vector<Member>> by_epoch;
    for (Member& member : members) {
        const std::uint64_t epoch = member.header.epoch;
        by_epoch[epoch].push_back(std::move(member));
    }
    std::vector<Linked> runs;
    for (auto& [epoch, same] : by_epoch) {
        Linked one{std::move(same), {epoch}};
        for (const Member& member : by_epoch.size() > 1 ? one.members : std::vector<Member>{}) {
            try {
                EventFile file(open_again(member, options));
                constexpr std::uint64_t piece = 4096;
                for (std::uint64_t place = 0, count = file.index_size(); place < count; place += piece)
                    for (const IndexEntry& entry : file.index_entries(place, piece)) one.epochs.insert(entry.epoch);
            } catch (const Error&) {
                // What cannot be read links no files.
            }
        }
        std::vector<Linked> others;
        for (Linked& other : runs) {
            const bool is_linked = std::any_of(other.epochs.begin(), other.epochs.end(),
                                               [&](std::uint64_t number) { return one.epochs.count(number) > 0; });
            if (!is_linked) {
                others.push_back(std::move(other));
                continue;
            }
            std::move(other.members.begin(), other.members.end(), std::back_inserter(one.members));
            one.epochs.insert(other.epochs.begin(), other.epochs.end());
        }
        others.push_back(std::move(one));
        runs = std::move(others);
    }
    std::vector<std::vector<Member>> groups;
    for (Linked& run : runs) groups.push_back(std::move(run.members));
    return groups;
}

/// Divides the files with one run number into runs (FILE-60, FILE-61).
inline std::vector<std::vector<Member>> groups_of(std::vector<Member> members, const Selection& selection,
                                                  const Options& options) {
    std::map<std::array<std::uint8_t, 16>, std::vector<Member>> known;
    std::vector<Member> digits, unknown;
    for (Member& member : members) {
        if (!member.header.run_id.known()) unknown.push_back(std::move(member));
        else if (member.has_digits_only) digits.push_back(std::move(member));
        else known[member.header.run_id.bytes].push_back(std::move(member));
    }
    for (Member& member : digits) {
        auto id = member.header.run_id.bytes;
        const auto fits = [&](const auto& one) { return std::equal(id.begin(), id.begin() + 4, one.first.begin()); };
        if (std::count_if(known.begin(), known.end(), fits) == 1) id = std::find_if(known.begin(), known.end(), fits)->first;
        known[id].push_back(std::move(member));
    }
    std::vector<std::vector<Member>> groups;
    for (auto& [id, same] : known) groups.push_back(std::move(same));
    if (!selection.same_run && !selection.epochs) {
        for (auto& group : linked(std::move(unknown), options)) groups.push_back(std::move(group));
    } else if (!unknown.empty()) {
        groups.push_back(std::move(unknown));
    }
    return groups;
}

/// The runs of several files, and the files that cannot be opened.
struct Runs {
    /// The runs in the order of number, begin, epoch and id, with the members of each.
    std::vector<std::pair<FoundRun, std::vector<Member>>> found;
    std::vector<Finding> unreadable;

    Runs(const std::vector<std::string>& paths, const Selection& selection, const Options& options) {
        std::map<std::uint32_t, std::vector<Member>> numbers;
        for (const std::string& path : paths) {
            try {
                const bool is_file = path != "-";
                auto file = std::make_shared<const Opened>(path, options, is_file);
                const bool digits = file->recovery == Recovery::records && file->header.run_id.known();
                Member member{path, file->header, digits, is_file ? nullptr : file};
                numbers[file->header.run].push_back(std::move(member));
            } catch (const Error& error) {
                unreadable.push_back(error.finding());
            }
        }
        for (auto& [number, members] : numbers)
            for (auto& group : groups_of(std::move(members), selection, options)) {
                FoundRun run = describe(group);
                found.emplace_back(std::move(run), std::move(group));
            }
        const auto key = [](const FoundRun& run) { return std::tie(run.number, run.begun_unix_ns, run.epoch, run.id.bytes); };
        std::stable_sort(found.begin(), found.end(), [&](const auto& a, const auto& b) { return key(a.first) < key(b.first); });
    }

    /// Leaves the chosen run alone. Throws `Error` if no run, or several, are the chosen one.
    void choose(const Selection& selection) {
        if (!selection.run) return;
        std::string digits = *selection.run;
        for (char& digit : digits)
            if (digit >= 'A' && digit <= 'F') digit = static_cast<char>(digit - 'A' + 'a');
        const bool is_hex = digits.find_first_not_of("0123456789abcdef") == std::string::npos;
        const bool is_number = !digits.empty() && digits.size() < 11 &&
                               digits.find_first_not_of("0123456789") == std::string::npos &&
                               std::stoull(digits) <= 0xffffffff;
        const bool is_id = is_hex && digits.size() >= 4 && digits.size() <= 32;
        if (!is_number && !is_id)
            throw runs_error("\"" + *selection.run + "\" chooses no run: give a run number, or at least the first 4 of the "
                             "hexadecimal digits of a run id");
        const auto is_other = [&](const auto& one) {
            const FoundRun& run = one.first;
            const bool by_id = is_id && run.id.known() && run.id.text().compare(0, digits.size(), digits) == 0;
            return !by_id && !(is_number && std::stoull(digits) == run.number);
        };
        if (!found.empty() && std::all_of(found.begin(), found.end(), is_other))
            throw runs_error("none of the files is of run " + digits + ", but of " + list() +
                             ": choose one of these, or give the files of run " + digits);
        found.erase(std::remove_if(found.begin(), found.end(), is_other), found.end());
        if (found.size() > 1) throw runs_error(several());
    }

    /// Returns the reason why these runs are not read as one.
    std::string several() const {
        std::map<std::uint32_t, int> unknown, numbers;
        for (const auto& one : found) {
            ++numbers[one.first.number];
            if (!one.first.id.known()) ++unknown[one.first.number];
        }
        const bool twins = std::any_of(unknown.begin(), unknown.end(), [](const auto& one) { return one.second > 1; });
        return "the files are of " + std::to_string(found.size()) + " runs: " + list() +
               (twins ? "; choose the records of one with `--epoch A..B`, from its first to its last epoch, or take them for one run with `--same-run`"
                : numbers.size() < found.size() ? "; choose one with `--run`, by the first digits of its id"
                                                : "; choose one with `--run`, by its number");
    }

  private:
    std::string list() const {
        std::string text;
        for (const auto& one : found) text += (text.empty() ? "" : ", ") + one.first.text();
        return text;
    }

    static FoundRun describe(const std::vector<Member>& members) {
        FoundRun run;
        const auto is_whole = [](const Member& member) { return !member.has_digits_only; };
        const auto whole = std::find_if(members.begin(), members.end(), is_whole);
        run.number = members.front().header.run;
        run.id = (whole != members.end() ? *whole : members.front()).header.run_id;
        run.epoch = members.front().header.epoch;
        for (const Member& member : members) {
            run.epoch = std::min(run.epoch, member.header.epoch);
            run.begun_unix_ns = std::max(run.begun_unix_ns, member.header.begun_unix_ns);
            run.files.push_back(member.path);
        }
        return run;
    }
};

}  // namespace detail

// ---------------------------------------------------------------------------------------------
// A run: all files in the order of event ids
// ---------------------------------------------------------------------------------------------

namespace detail {

/// One file of a run. It is open only while its range of event ids is being read.
class RunInput {
  public:
    /// Opens the file and reads its first index entries. A file without an intact index is scanned,
    /// and what is wrong with it goes into `findings`.
    RunInput(const Member& member, const Options& options, std::vector<Finding>& findings)
        : path_(member.path), options_(options) {
        if (member.opened) file_.emplace(member.opened);
        EventFile& file = open();
        header_ = file.header();
        if (const auto recovery = file.recovery())
            findings.push_back(header_finding_of(path_, *recovery));
        has_whole_index_ = file.has_whole_index();
        if (!*has_whole_index_) {
            if (file.index_state() == IndexState::present) {
                Finding finding;
                finding.kind = Kind::wrong_index;
                finding.path = path_;
                finding.text = path_ + ": " + wrong_index_words;
                findings.push_back(std::move(finding));
            }
            Events heads = file.events(Read::heads);
            for (const Item& item : heads)
                if (!item) findings.push_back(*item.finding);
        }
        load(2);
        close();
    }

    const std::string& path() const noexcept { return path_; }
    const Header& header() const noexcept { return header_; }
    const IndexEntry* next() const noexcept { return place_ < entries_.size() ? &entries_[place_] : nullptr; }
    void read(Item& item) { open().event_at(entries_[place_], item); }

    /// Advances to the next event, and closes the file after the last.
    void advance() {
        if (++place_ < entries_.size()) return;
        piece_ += entries_.size();
        load(4096);
        if (entries_.empty()) close();
    }

  private:
    EventFile& open() {
        if (!file_) {
            file_.emplace(path_, options_);
            if (has_whole_index_) file_->trust_index(*has_whole_index_);
        }
        return *file_;
    }

    /// Closes the file, unless it is standard input, which cannot be opened again.
    void close() {
        if (path_ != "-") file_.reset();
    }

    /// Loads the next index entries, with all copies of the last event among them. Copies of an
    /// event are in the order of falling epochs, because the highest epoch counts.
    void load(std::uint64_t count) {
        place_ = 0;
        for (;; count *= 2) {
            entries_ = open().index_entries(piece_, count);
            if (entries_.size() < count) break;
            const std::uint64_t last = entries_.back().event;
            const auto is_last = [last](const IndexEntry& entry) { return entry.event == last; };
            const auto copies = std::find_if(entries_.begin(), entries_.end(), is_last);
            if (copies == entries_.begin()) continue;
            entries_.erase(copies, entries_.end());
            break;
        }
        std::stable_sort(entries_.begin(), entries_.end(), [](const IndexEntry& a, const IndexEntry& b) {
            return a.event != b.event ? a.event < b.event : a.epoch > b.epoch;
        });
    }

    std::string path_;
    Options options_;
    Header header_;
    std::optional<EventFile> file_;
    std::optional<bool> has_whole_index_;
    std::vector<IndexEntry> entries_;
    std::size_t place_ = 0;
    std::uint64_t piece_ = 0;
};

}  // namespace detail

/// All events of a run, from the files of all builders: each event once, in the order of event ids.
/// Of several copies of an event, the one of the highest epoch is read; if it is damaged, the next
/// one.
class Run {
  public:
    /// Opens the files at `path`: a directory, one file, or "-" for standard input.
    ///
    /// A file that cannot be read costs no event of another file: it is a finding. Throws `Error`
    /// if there is no event file, no file can be read, or the selection leaves files of several
    /// runs, or of none.
    explicit Run(const std::string& path, const Options& options = {}, const Selection& selection = {})
        : Run(std::vector<std::string>{path}, options, selection) {}

    /// Opens the files at several paths. A file that is named twice is read once.
    explicit Run(const std::vector<std::string>& paths, const Options& options = {}, Selection selection = {})
        : selection_(std::move(selection)) {
        detail::Runs runs(detail::distinct_files(paths), selection_, options);
        findings_ = runs.unreadable;
        runs.choose(selection_);
        if (runs.found.size() > 1) throw detail::runs_error(runs.several());
        if (runs.found.empty()) throw Error(findings_.front());
        std::set<std::uint16_t> sources;
        const auto& [run, members] = runs.found.front();
        found_ = run;
        for (const detail::Member& member : members) {
            try {
                inputs_.emplace_back(member, options, findings_);
            } catch (const Error& error) {
                findings_.push_back(error.finding());
                continue;
            }
            const Header& header = inputs_.back().header();
            sources.insert(header.sources.begin(), header.sources.end());
            source_names_.insert(header.source_names.begin(), header.source_names.end());
            builder_names_.insert(header.builder_names.begin(), header.builder_names.end());
            if (kind_.empty()) kind_ = header.kind;
            if (comment_.empty()) comment_ = header.comment;
        }
        if (inputs_.empty()) throw Error(findings_.front());
        sources_.assign(sources.begin(), sources.end());
        for (std::size_t place = 0; place < inputs_.size(); ++place) enqueue(place);
    }

    /// Returns the run number.
    std::uint32_t number() const noexcept { return found_.number; }
    /// Returns the identity of the run.
    const RunId& id() const noexcept { return found_.id; }
    /// Returns the begin of the run in nanoseconds since 1970 (UTC); 0: unknown.
    std::uint64_t begun_unix_ns() const noexcept { return found_.begun_unix_ns; }
    /// Returns the kind of the run, and the comment on it, UTF-8.
    const std::string& kind() const noexcept { return kind_; }
    const std::string& comment() const noexcept { return comment_; }
    /// Returns the names of sources and builders that have one, UTF-8.
    const std::map<std::uint16_t, std::string>& source_names() const noexcept { return source_names_; }
    const std::map<std::uint16_t, std::string>& builder_names() const noexcept { return builder_names_; }
    /// Returns the sources of the run, sorted.
    const std::vector<std::uint16_t>& sources() const noexcept { return sources_; }
    /// Returns the findings made when the run was opened: files that cannot be read, recovered
    /// headers, and damage in files without an intact index, whose events are therefore not known.
    const std::vector<Finding>& findings() const noexcept { return findings_; }
    /// Returns the number of copies left out so far because the event was built again later.
    std::uint64_t superseded() const noexcept { return superseded_; }
    /// Returns the number of copies left out so far because of another copy in the same epoch.
    std::uint64_t duplicates() const noexcept { return duplicates_; }
    /// Returns the number of copies left out so far because of the selection of epochs.
    std::uint64_t other_epochs() const noexcept { return other_epochs_; }

    /// Returns the next event or finding, valid until the next call; null after the last.
    const Item* next() {
        if (current_ && !advance()) return &item_;
        while (!queue_.empty()) {
            const Next next = queue_.top();
            queue_.pop();
            current_ = next.input;
            if (!selection_.takes(next.epoch)) {
                ++other_epochs_;
                if (!advance()) return &item_;
                continue;
            }
            if (!last_ || last_->event != next.event) {
                read(next);
                return &item_;
            }
            ++(last_->epoch == next.epoch ? duplicates_ : superseded_);
            if (!advance()) return &item_;
        }
        return nullptr;
    }

    ItemIterator<Run> begin() { return ItemIterator<Run>(*this); }
    ItemIterator<Run> end() { return {}; }

  private:
    /// The next event of one file.
    struct Next {
        std::uint64_t event;
        std::uint64_t epoch;
        std::size_t input;

        /// Returns true if the other comes first: a lower event id, and then a higher epoch.
        bool operator<(const Next& other) const noexcept {
            if (event != other.event) return event > other.event;
            if (epoch != other.epoch) return epoch < other.epoch;
            return input > other.input;
        }
    };

    void enqueue(std::size_t place) {
        if (const IndexEntry* entry = inputs_[place].next()) queue_.push({entry->event, entry->epoch, place});
    }

    /// Advances the file that was read last; returns false, with a finding, if it cannot be read
    /// any more.
    bool advance() {
        const std::size_t place = *current_;
        current_.reset();
        try {
            inputs_[place].advance();
        } catch (const Error& error) {
            item_.finding = error.finding();
            return false;
        }
        enqueue(place);
        return true;
    }

    void read(const Next& next) {
        try {
            inputs_[next.input].read(item_);
        } catch (const Error& error) {
            item_.finding = error.finding();
        }
        if (!item_) return;
        item_.event.run_id = found_.id;
        last_ = next;
    }

    Selection selection_;
    FoundRun found_;
    std::string kind_;
    std::string comment_;
    std::map<std::uint16_t, std::string> source_names_;
    std::map<std::uint16_t, std::string> builder_names_;
    std::vector<std::uint16_t> sources_;
    std::vector<Finding> findings_;
    std::vector<detail::RunInput> inputs_;
    std::priority_queue<Next> queue_;
    std::optional<Next> last_;
    /// The file of the item that was returned last. It stays open for as long as the item is valid.
    std::optional<std::size_t> current_;
    std::uint64_t superseded_ = 0;
    std::uint64_t duplicates_ = 0;
    std::uint64_t other_epochs_ = 0;
    Item item_;
};

// ---------------------------------------------------------------------------------------------
// Verification
// ---------------------------------------------------------------------------------------------

/// Findings of one kind: their total number, and the first 1000 of them.
template <class T>
struct Listed {
    static constexpr std::size_t limit = 1000;
    std::uint64_t total = 0;
    std::vector<T> first;

    void add(T finding) {
        ++total;
        if (first.size() < limit) first.push_back(std::move(finding));
    }
};

/// An event without all its fragments.
struct IncompleteEvent {
    std::uint64_t event = 0;
    std::uint64_t epoch = 0;
    std::vector<MissingSource> missing;
};
/// The number of events without a source, for one cause.
struct WithoutSource {
    std::uint16_t source = 0;
    Cause cause = Cause::unknown;
    std::uint64_t events = 0;
};
/// The number of events in which the fragment of a source disagrees, or lost packets.
struct EventsOfSource {
    std::uint16_t source = 0;
    std::uint64_t events = 0;
};
/// A range of event ids that no file has.
struct Gap {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
};
/// A second or later copy of an event in one epoch.
struct Duplicate {
    std::uint64_t event = 0;
    std::uint64_t epoch = 0;
};
/// A copy of an event that does not count, because it was built again in the epoch `by`.
struct Superseded {
    std::uint64_t event = 0;
    std::uint64_t epoch = 0;
    std::uint64_t by = 0;
};
/// Damaged bytes in a file; the offset is 0 for an index and for a header.
struct Damage {
    std::string path;
    std::uint64_t offset = 0;
    std::optional<std::uint64_t> event;
    std::string what;
};
/// A file that ends inside a record.
struct TornTail {
    std::string path;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    std::optional<std::uint64_t> event;
    /// True if a whole record of the same event exists.
    bool elsewhere = false;
};
/// A file or record that does not belong to the run.
struct Foreign {
    std::string path;
    std::uint32_t run = 0;
    /// The record's event; none if the whole file is foreign.
    std::optional<std::uint64_t> event;
};

/// The result of verifying one run.
struct RunReport {
    std::uint32_t run = 0;
    /// The identity of the run.
    RunId run_id;
    /// The begin of the run in nanoseconds since 1970 (UTC); 0: unknown.
    std::uint64_t begun_unix_ns = 0;
    /// The kind of the run and the comment on it, UTF-8.
    std::string kind;
    std::string comment;
    /// The names of sources and builders that have one, UTF-8.
    std::map<std::uint16_t, std::string> source_names;
    std::map<std::uint16_t, std::string> builder_names;
    std::uint64_t files = 0;
    /// The total size of the files, in bytes.
    std::uint64_t size = 0;
    /// The number of intact records; every copy of an event counts.
    std::uint64_t records = 0;
    /// The number of different events.
    std::uint64_t events = 0;
    std::optional<std::uint64_t> expected;
    /// The number of events that have a fragment of every source that owes them one.
    std::uint64_t complete = 0;
    /// Of the complete events, those without a source that does not owe them a fragment, by source
    /// and cause.
    std::vector<WithoutSource> complete_without;
    Listed<IncompleteEvent> incomplete;
    /// The incomplete events by missing source and cause. An event without several sources counts
    /// for each of them.
    std::vector<WithoutSource> incomplete_without;
    /// The number of events with a fragment whose time is not that of the event, as the guard of
    /// the run found: no defect of the files.
    std::uint64_t misaligned = 0;
    /// These events by the source of the fragment. An event with several counts for each of them.
    std::vector<EventsOfSource> misaligned_by;
    /// The number of events with a fragment of which packets were lost before they reached its
    /// source: no defect of the files.
    std::uint64_t lossy = 0;
    /// These events by the source of the fragment. An event with several counts for each of them.
    std::vector<EventsOfSource> lossy_by;
    std::uint64_t highest = 0;
    /// The number of event ids, from 1 to the highest, that are in no file. Inhibited triggers
    /// leave such gaps too, so a gap alone is no defect.
    std::uint64_t absent = 0;
    Listed<Gap> gaps;
    Listed<Duplicate> duplicates;
    Listed<Superseded> superseded;
    /// Records that are not verified because of the selection of epochs.
    std::uint64_t other_epochs = 0;
    Listed<Damage> damaged;
    Listed<TornTail> torn_tails;
    Listed<Foreign> foreign;
    /// Files that were not closed.
    Listed<std::string> without_index;
    /// The total payload size of all intact records, in bytes.
    std::uint64_t payload = 0;

    /// Returns true if every event is complete and has no duplicate, nothing is damaged or foreign,
    /// and the number of events is the expected one. If no number is expected, the event of every
    /// torn record must have a whole record too.
    bool clean() const noexcept {
        const bool all_there = expected ? *expected == events : torn_tails.total == torn_and_built_again();
        return incomplete.total + duplicates.total + damaged.total + foreign.total == 0 && all_there;
    }

    /// Returns the number of torn tails whose event has a whole record.
    std::uint64_t torn_and_built_again() const noexcept {
        const auto is_elsewhere = [](const TornTail& tail) { return tail.elsewhere; };
        const auto& first = torn_tails.first;
        return static_cast<std::uint64_t>(std::count_if(first.begin(), first.end(), is_elsewhere));
    }

    /// Returns the report in the words of `evbd verify`.
    std::string text() const { return table() + findings(); }

  private:
    std::string table() const {
        using detail::in_words;
        using std::to_string;
        const std::uint64_t again = torn_and_built_again(), torn = torn_tails.total;
        std::string wanted, gap, tails;
        if (expected) wanted = *expected == events ? "  as expected" : "  EXPECTED " + to_string(*expected);
        if (gaps.total > 0) {
            const std::string count = gaps.total == 1 ? "1 gap" : to_string(gaps.total) + " gaps";
            gap = "  in " + count + " up to event " + to_string(highest) + ": inhibited triggers, lost, or in other files; "
                  "the ledger in the run's summary counts them";
        }
        if (torn > 0 && torn == again) tails = "  of events that have a whole record";
        else if (torn > 0 && expected == events) tails = "  and no event is missing";
        else if (torn > 0 && again == 0) tails = "  perhaps of events that are lost";
        else if (torn > 0) tails = "  of these, " + to_string(again) + " of events that have a whole record";
        std::string head = "run " + to_string(run);
        if (run_id.known()) head += " (" + run_id.short_text() + ")";
        if (begun_unix_ns != 0) head += ", begun " + utc_in_words(begun_unix_ns);
        const std::string of_these = complete_without.empty() ? "" : "  of these " + sentence(complete_without);
        const auto known = [](const WithoutSource& one) { return one.cause != Cause::unknown; };
        const bool has_cause = std::any_of(incomplete_without.begin(), incomplete_without.end(), known);
        return head + ": " + to_string(files) + (files == 1 ? " file, " : " files, ") + detail::about(size) +
               ", of which " + detail::about(payload) + " payload\n" + description() + row("events", events, wanted) +
               row("complete", complete, of_these) +
               row("incomplete", incomplete.total, has_cause ? "  " + sentence(incomplete_without) : "") +
               row("event ids in no file", absent, gap) + row("superseded copies", superseded.total) +
               row("duplicates", duplicates.total) + row("CRC errors", damaged.total) +
               row("torn tails", torn, tails) + row("foreign", foreign.total) +
               row("files without index", without_index.total) +
               (misaligned > 0 ? row("misaligned", misaligned, "  with a fragment whose timestamp disagrees with the others: " + by(misaligned_by)) : "") +
               (lossy > 0 ? row("with lost packets", lossy, "  with a fragment that lacks packets, lost before evb: " + by(lossy_by)) : "") +
               (other_epochs > 0 ? row("of other epochs", other_epochs, "  not verified, because `--epoch` leaves them out") : "");
    }

    /// Returns kind, comment and names of the run, if they are known.
    std::string description() const {
        std::string text;
        if (!kind.empty()) text += "  kind: " + kind + "\n";
        if (!comment.empty()) text += "  comment: " + comment + "\n";
        for (const auto& [id, name] : source_names) text += "  source " + std::to_string(id) + ": " + name + "\n";
        for (const auto& [id, name] : builder_names) text += "  builder " + std::to_string(id) + ": " + name + "\n";
        return text;
    }

    static std::string by(const std::vector<EventsOfSource>& sources) {
        std::string text;
        for (const EventsOfSource& one : sources)
            text += (text.empty() ? "" : ", ") + std::to_string(one.events) + " of source " + std::to_string(one.source);
        return text;
    }

    static std::string sentence(const std::vector<WithoutSource>& without) {
        std::string text;
        for (const WithoutSource& one : without)
            text += (text.empty() ? "" : ", ") + std::to_string(one.events) + " without source " +
                    std::to_string(one.source) + " (" + file::in_words(one.cause) + ")";
        return text;
    }

    /// Names the missing sources of an event, with their causes if these are known.
    static std::string named(const std::vector<MissingSource>& missing) {
        const auto known = [](const MissingSource& one) { return one.cause != Cause::unknown; };
        const bool has_cause = std::any_of(missing.begin(), missing.end(), known);
        std::string list;
        for (const MissingSource& one : missing) {
            list += (list.empty() ? "" : ", ") + std::string(has_cause ? "source " : "") + std::to_string(one.source);
            if (has_cause) list += " (" + file::in_words(one.cause) + ")";
        }
        if (has_cause) return "missing: " + list;
        return (missing.size() == 1 ? "missing source " : "missing sources ") + list;
    }

    static std::string row(const std::string& what, std::uint64_t count, const std::string& note = "") {
        char text[64];
        std::snprintf(text, sizeof text, "  %-20s %12llu", what.c_str(), static_cast<unsigned long long>(count));
        return text + note + "\n";
    }

    template <class T, class Show>
    static std::string list(const Listed<T>& listed, Show show) {
        const std::size_t shown = std::min<std::size_t>(listed.first.size(), 10);
        std::string text;
        for (std::size_t i = 0; i < shown; ++i) text += "  " + show(listed.first[i]) + "\n";
        const std::uint64_t more = listed.total - shown;
        if (more > 0) text += "  \xe2\x80\xa6 and " + std::to_string(more) + " more of these\n";
        return text;
    }

    std::string findings() const {
        using detail::in_words;
        using std::to_string;
        return list(incomplete, [](const IncompleteEvent& event) {
            return "incomplete: event " + to_string(event.event) + ", " + named(event.missing);
        }) + list(gaps, [](const Gap& gap) {
            const std::string first = to_string(gap.first), last = to_string(gap.last);
            return "in no file: event" + (first == last ? " " + first : "s " + first + " to " + last);
        }) + list(superseded, [](const Superseded& copy) {
            return "superseded: event " + to_string(copy.event) + " was built twice, because it was assigned again: " +
                   "the copy of epoch " + to_string(copy.by) + " counts, not that of epoch " + to_string(copy.epoch);
        }) + list(duplicates, [](const Duplicate& copy) {
            return "duplicate: event " + to_string(copy.event) + " (epoch " + to_string(copy.epoch) +
                   ") is in the files twice; its first copy counts";
        }) + list(damaged, [](const Damage& damage) {
            return "CRC error: " + damage.path + (damage.offset > 0 ? " at byte " + to_string(damage.offset) : "") +
                   (damage.event ? ", event " + to_string(*damage.event) : "") + ": " + damage.what;
        }) + list(torn_tails, [](const TornTail& tail) {
            return "torn tail: " + tail.path + " at byte " + to_string(tail.offset) + ": " + in_words(tail.length) +
                   (!tail.event ? " of an event whose id cannot be read, and which may be lost"
                    : " of event " + to_string(*tail.event) +
                          (tail.elsewhere ? ", of which there is a whole record: nothing is lost"
                                          : ", which is lost unless another file has a whole record of it"));
        }) + list(foreign, [this](const Foreign& one) {
            const std::string of = " of run " + to_string(one.run) + ", ";
            return "foreign: " + one.path + ": " +
                   (one.event ? "event " + to_string(*one.event) + of + "from another run or builder, is left out"
                              : "its name is that" + of + "but its header that of run " + to_string(run) +
                                    ", for which its events count: give it its old name again");
        }) + list(without_index, [](const std::string& path) {
            return "without index: " + path + " was not closed; all its records were read, so nothing needs to be done";
        });
    }
};

/// The result of a verification, with a report for each run.
struct Report {
    std::vector<RunReport> runs;
    /// Runs that share their number with others: a defect. Each entry has the runs of one number.
    std::vector<std::vector<FoundRun>> shared_numbers;
    /// Files that could not be opened, or not read to their end.
    std::vector<Finding> unreadable;

    bool clean() const noexcept {
        const auto is_clean = [](const RunReport& run) { return run.clean(); };
        return unreadable.empty() && shared_numbers.empty() && std::all_of(runs.begin(), runs.end(), is_clean);
    }

    /// Returns the report in the words of `evbd verify`.
    std::string text() const {
        std::string text;
        for (const RunReport& run : runs) text += run.text();
        for (const auto& shared : shared_numbers) {
            std::string list;
            for (const FoundRun& run : shared) list += (list.empty() ? "" : ", ") + run.text();
            text += "several runs have the number " + std::to_string(shared.front().number) + ": " + list +
                "; choose one with `--run`, by the first digits of its id\n";
        }
        for (const Finding& finding : unreadable) text += "unreadable: " + finding.text + "\n";
        return text + (clean() ? "clean\n" : "NOT CLEAN\n");
    }
};

/// Facts that are known from elsewhere and with which the files must agree.
struct VerifyOptions {
    /// The run to verify; if none is chosen, each run is verified separately.
    Selection selection;
    /// The number of events that each run must have.
    std::optional<std::uint64_t> expected;
};

namespace detail {

/// Counts the events of a run, and selects for each event the copy that counts (FILE-24).
class Tally {
  public:
    void add(const Event& event) {
        std::uint32_t lists = 0;
        if (!event.whole() || !event.aligned()) {
            Sources misaligned, lossy;
            for (const Fragment& one : event.fragments) {
                if (one.alignment == Alignment::disagrees) misaligned.push_back(one.source);
                if (one.lost_packets > 0) lossy.push_back(one.source);
            }
            const auto next = static_cast<std::uint32_t>(lists_.size());
            const auto [at, is_new] = places_.try_emplace({flat(event.missing), flat(event.absent), misaligned, lossy}, next);
            if (is_new) lists_.push_back({event.missing, event.absent, std::move(misaligned), std::move(lossy)});
            lists = at->second;
        }
        copies_.push_back({event.id, event.epoch, lists, event.complete()});
    }

    /// Fills in the parts of the report that need the records of all files of the run.
    void finish(RunReport& report) {
        // Copies of one epoch stay in the order of the files, so that `Run` takes the same one.
        std::stable_sort(copies_.begin(), copies_.end());
        counts_.assign(lists_.size(), 0);
        for (std::size_t begin = 0; begin < copies_.size();) {
            std::size_t end = begin + 1;
            while (end < copies_.size() && copies_[end].event == copies_[begin].event) ++end;
            count(begin, end, report);
            begin = end;
        }
        for (TornTail& tail : report.torn_tails.first) {
            const auto at = tail.event ? first_copy(*tail.event) : copies_.end();
            tail.elsewhere = at != copies_.end() && at->event == *tail.event;
        }
        report.incomplete_without = without(&Lists::missing);
        report.complete_without = without(&Lists::absent);
        count(&Lists::misaligned, report.misaligned, report.misaligned_by);
        count(&Lists::lossy, report.lossy, report.lossy_by);
    }

  private:
    /// The facts kept about one copy of an event.
    struct Copy {
        std::uint64_t event;
        std::uint64_t epoch;
        /// The place of the copy's lists in `lists_`.
        std::uint32_t lists;
        bool complete;

        /// Sorts by event; the copy that counts comes before the others.
        bool operator<(const Copy& other) const noexcept {
            if (event != other.event) return event < other.event;
            return epoch > other.epoch;
        }
    };

    using Sources = std::vector<std::uint16_t>;

    /// The missing and absent sources of an event, and those whose fragments disagree or lost
    /// packets.
    struct Lists {
        std::vector<MissingSource> missing;
        std::vector<MissingSource> absent;
        Sources misaligned;
        Sources lossy;
    };

    using Flat = std::vector<std::uint32_t>;

    /// Returns a list in a form that can be compared.
    static Flat flat(const std::vector<MissingSource>& sources) {
        Flat numbers;
        for (const MissingSource& one : sources)
            numbers.push_back(std::uint32_t{one.source} << 8 | static_cast<std::uint32_t>(one.cause));
        return numbers;
    }

    std::vector<Copy>::const_iterator first_copy(std::uint64_t event) const {
        const auto before = [](const Copy& copy, std::uint64_t id) { return copy.event < id; };
        return std::lower_bound(copies_.begin(), copies_.end(), event, before);
    }

    void count(std::size_t begin, std::size_t end, RunReport& report) {
        const Copy& counted = copies_[begin];
        ++report.events;
        ++counts_[counted.lists];
        if (counted.complete) ++report.complete;
        else report.incomplete.add({counted.event, counted.epoch, lists_[counted.lists].missing});
        if (counted.event > report.highest + 1) {
            report.absent += counted.event - report.highest - 1;
            report.gaps.add({report.highest + 1, counted.event - 1});
        }
        report.highest = counted.event;
        for (std::size_t i = begin + 1; i < end; ++i) {
            if (copies_[i].epoch == copies_[i - 1].epoch) report.duplicates.add({counted.event, copies_[i].epoch});
            else report.superseded.add({counted.event, copies_[i].epoch, counted.epoch});
        }
    }

    /// Counts the events by source and cause: by missing sources, or complete events by absent ones.
    std::vector<WithoutSource> without(std::vector<MissingSource> Lists::*list) const {
        std::map<std::pair<std::uint16_t, unsigned>, WithoutSource> counts;
        for (std::size_t place = 0; place < lists_.size(); ++place) {
            if (counts_[place] == 0 || (list == &Lists::absent && !lists_[place].missing.empty())) continue;
            for (const MissingSource& one : lists_[place].*list) {
                WithoutSource& counted = counts[{one.source, order(one.cause)}];
                counted = {one.source, one.cause, counted.events + counts_[place]};
            }
        }
        std::vector<WithoutSource> all;
        for (const auto& one : counts) all.push_back(one.second);
        return all;
    }

    /// Counts the events with a source in a list, and by source.
    void count(Sources Lists::*list, std::uint64_t& events, std::vector<EventsOfSource>& by_source) const {
        std::map<std::uint16_t, std::uint64_t> counts;
        for (std::size_t place = 0; place < lists_.size(); ++place) {
            const Sources& sources = lists_[place].*list;
            if (counts_[place] == 0 || sources.empty()) continue;
            events += counts_[place];
            for (const std::uint16_t source : sources) counts[source] += counts_[place];
        }
        for (const auto& [source, count] : counts) by_source.push_back({source, count});
    }

    /// Returns the place of a cause in lists: those of later versions come last.
    static unsigned order(Cause cause) {
        const bool is_known = file::in_words(cause).compare(0, 6, "cause ") != 0;
        return static_cast<unsigned>(cause) + (is_known ? 0 : 256);
    }

    std::vector<Copy> copies_;
    /// The different lists; the first is empty.
    std::vector<Lists> lists_ = std::vector<Lists>(1);
    std::map<std::tuple<Flat, Flat, Sources, Sources>, std::uint32_t> places_;
    /// The number of events with each of the lists.
    std::vector<std::uint64_t> counts_;
};

/// Returns the run number in the name of an event file (FILE-7); none for any other name.
inline std::optional<std::uint32_t> run_in_name(const std::string& path) {
    std::string_view name(path);
    if (const auto slash = name.rfind('/'); slash != std::string_view::npos) name.remove_prefix(slash + 1);
    const auto number = [](std::string_view text, std::uint64_t most) -> std::optional<std::uint64_t> {
        if (!text.empty() && text.front() == '+') text.remove_prefix(1);
        std::uint64_t value = 0;
        for (const char digit : text) {
            if (digit < '0' || digit > '9') return std::nullopt;
            value = 10 * value + static_cast<std::uint64_t>(digit - '0');
            if (value > most) return std::nullopt;
        }
        return text.empty() ? std::nullopt : std::optional<std::uint64_t>(value);
    };
    if (name.size() < 7 || name.substr(0, 3) != "run" || name.substr(name.size() - 4) != ".evb") return std::nullopt;
    name = name.substr(3, name.size() - 7);
    const auto first = name.find('_'), second = name.find('_', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) return std::nullopt;
    const std::string_view builder = name.substr(first + 1, second - first - 1);
    const bool is_one = !builder.empty() && builder[0] == 'b' && number(builder.substr(1), 0xffff);
    const bool is_builder = is_one || builder == "all";
    const auto run = number(name.substr(0, first), 0xffffffff);
    if (!run || !is_builder || !number(name.substr(second + 1), 0xffffffff)) return std::nullopt;
    return static_cast<std::uint32_t>(*run);
}

/// The state of the verification of one run.
class Verification {
  public:
    Verification(const FoundRun& run, const VerifyOptions& options) : selection_(options.selection) {
        report_.run = run.number;
        report_.run_id = run.id;
        report_.begun_unix_ns = run.begun_unix_ns;
        report_.expected = options.expected;
    }

    /// Reads and checks one file to its end. Returns the reason if the file cannot be read further;
    /// other defects go into the report.
    std::optional<Finding> file(const std::shared_ptr<const Opened>& file) {
        file_ = file;
        entries_.clear();
        comparable_ = file->index_state == IndexState::present;
        index_is_wrong_ = false;
        ++report_.files;
        report_.size += file->storage.length();
        describe();
        check_run();
        Scan scan(file);
        for (Item item; scan.next(item);) {
            if (item) {
                saw(item.event);
                scan.verify(item);
            } else {
                comparable_ = false;
                index_is_wrong_ = index_is_wrong_ || item.finding->flaw == Flaw::index;
            }
            if (item) record(item.event);
            else if (item.finding->kind == Kind::file) return item.finding;
            else if (item.finding->flaw == Flaw::foreign)
                report_.foreign.add({file_->path, item.event.run, item.event.id});
            else defect(*item.finding);
        }
        return index();
    }

    RunReport finish() {
        tally_.finish(report_);
        return std::move(report_);
    }

  private:
    /// Takes what the header says of the run.
    void describe() {
        const Header& header = file_->header;
        if (file_->recovery) report_.damaged.add({file_->path, 0, std::nullopt, file::in_words(*file_->recovery)});
        if (report_.kind.empty()) report_.kind = header.kind;
        if (report_.comment.empty()) report_.comment = header.comment;
        for (const auto& [id, name] : header.source_names) report_.source_names[id] = name;
        for (const auto& [id, name] : header.builder_names) report_.builder_names[id] = name;
    }

    void check_run() {
        const auto named = run_in_name(file_->path);
        const std::uint32_t run = file_->header.run;
        if (run != report_.run) report_.foreign.add({file_->path, run, std::nullopt});
        else if (named && *named != report_.run) report_.foreign.add({file_->path, *named, std::nullopt});
    }

    void saw(const Event& event) {
        // One entry more than an index can hold is enough to know that the index does not match.
        if (comparable_ && entries_.size() <= max_records) entries_.push_back({event.id, event.epoch, event.offset});
    }

    void record(const Event& event) {
        if (!selection_.takes(event.epoch)) {
            ++report_.other_epochs;
            return;
        }
        ++report_.records;
        report_.payload += event.payload_size();
        tally_.add(event);
    }

    void defect(const Finding& finding) {
        if (finding.kind == Kind::torn_tail) {
            report_.torn_tails.add({finding.path, finding.offset, finding.length, finding.event, false});
            return;
        }
        const std::uint16_t number = finding.source.value_or(finding.unknown.value_or(0));
        const std::string what = in_words(*finding.flaw, number);
        report_.damaged.add({finding.path, finding.offset, finding.event, what});
    }

    /// Compares the index of the file with the records found in it.
    std::optional<Finding> index() {
        const auto damage = [this](const char* what) { report_.damaged.add({file_->path, 0, std::nullopt, what}); };
        switch (file_->index_state) {
            case IndexState::present:
                try {
                    if (comparable_ && !agrees()) damage(wrong_index_words);
                } catch (const ReadFailure& failure) {
                    return file_finding("read the index of", file_->path, failure.error);
                }
                break;
            case IndexState::damaged: damage(damaged_index_words); break;
            case IndexState::absent:
                if (!index_is_wrong_) report_.without_index.add(file_->path);
        }
        return std::nullopt;
    }

    bool agrees() {
        std::sort(entries_.begin(), entries_.end());
        if (entries_.size() != file_->index_records) return false;
        Window window(file_->storage);
        std::uint64_t at = file_->index_offset + index_head;
        for (const IndexEntry& entry : entries_) {
            const Bytes bytes = window.up_to(at, index_entry);
            if (bytes.size < index_entry || !(decode_entry(bytes.data) == entry)) return false;
            at += index_entry;
        }
        return true;
    }

    Selection selection_;
    RunReport report_;
    Tally tally_;
    std::shared_ptr<const Opened> file_;
    std::vector<IndexEntry> entries_;
    /// True if no damage was found, so that the index can be compared with `entries_`.
    bool comparable_ = false;
    /// True if an index that does not match the records was already reported as damage.
    bool index_is_wrong_ = false;
};

}  // namespace detail

/// Reads every byte of the files at the given paths (a directory stands for all `*.evb` in it) and
/// accounts for every event, as `evbd verify` does. Takes 24 bytes of memory for each event, and some
/// more for each different set of missing sources.
///
/// Throws `Error` if a path does not exist, there is no event file, or no run, or several, are the
/// chosen one.
inline Report verify(const std::vector<std::string>& paths, const VerifyOptions& expected = {},
                     const Options& options = {}) {
    Report report;
    detail::Runs runs(detail::distinct_files(paths), expected.selection, options);
    report.unreadable = runs.unreadable;
    runs.choose(expected.selection);
    std::map<std::uint32_t, std::vector<FoundRun>> numbers;
    for (const auto& one : runs.found) numbers[one.first.number].push_back(one.first);
    for (auto& [number, shared] : numbers)
        if (shared.size() > 1) report.shared_numbers.push_back(std::move(shared));
    for (const auto& [run, members] : runs.found) {
        detail::Verification verification(run, expected);
        for (const detail::Member& member : members) {
            try {
                auto failed = verification.file(detail::open_again(member, options));
                if (failed) report.unreadable.push_back(std::move(*failed));
            } catch (const Error& error) {
                report.unreadable.push_back(error.finding());
            }
        }
        report.runs.push_back(verification.finish());
    }
    return report;
}

/// Verifies the files at one path.
inline Report verify(const std::string& path, const VerifyOptions& expected = {}, const Options& options = {}) {
    return verify(std::vector<std::string>{path}, expected, options);
}

}  // namespace evb::file

#endif  // EVB_FILE_HPP
