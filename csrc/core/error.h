// What can go wrong; bindings turn each kind into a Python exception.
#pragma once

#include <stdexcept>
#include <string>

namespace vd {

enum class ErrorKind {
    unavailable,    // no driver, no such device
    unsupported,    // the card cannot decode this
    damaged,        // bytes missing or wrong
    unreadable,     // the source is gone or changed
    format,         // pictures have another format than their slots
    out_of_memory,  // of the GPU
    cancelled,
    forked,  // used in a forked child
    driver   // a driver call failed
};

inline const char* name_of(ErrorKind kind) {
    switch (kind) {
        case ErrorKind::unavailable:
            return "unavailable";
        case ErrorKind::unsupported:
            return "unsupported";
        case ErrorKind::damaged:
            return "damaged";
        case ErrorKind::unreadable:
            return "unreadable";
        case ErrorKind::format:
            return "format";
        case ErrorKind::out_of_memory:
            return "out_of_memory";
        case ErrorKind::cancelled:
            return "cancelled";
        case ErrorKind::forked:
            return "forked";
        case ErrorKind::driver:
            return "driver";
    }
    return "driver";
}

class Error : public std::runtime_error {
  public:
    Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind(kind) {}
    ErrorKind kind;
};

}  // namespace vd
