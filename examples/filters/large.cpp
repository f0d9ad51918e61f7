// Keeps events of which a fragment has a mean byte above a threshold, with its source as their tag: a
// filter of a builder.
//
//     c++ -std=c++17 -O2 -I bindings/c/include examples/filters/large.cpp -o large
//
//     filter = { kind = "process", command = ["/opt/daq/large", "127"], workers = 4 }

#include <cstdlib>
#include <numeric>

#include "evb_filter.hpp"

int main(int count, char** arguments) {
    const double threshold = count > 1 ? std::atof(arguments[1]) : 127;
    return evb::filter::run([threshold](const evb::filter::Event& event) -> evb::filter::Verdict {
        for (const evb::filter::Fragment& fragment : event.fragments) {
            const double sum = std::accumulate(fragment.data, fragment.data + fragment.size, 0.0);
            if (fragment.size > 0 && sum / static_cast<double>(fragment.size) > threshold)
                return evb::filter::Tag{fragment.source};
        }
        return false;
    });
}
