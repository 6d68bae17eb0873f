// Numbers with the meaning that expressions have in evo's space files, which is Python's within 64 bits: `/` is true
// division, floor_div and floor_mod round down, a whole number and a fraction compare exactly. What has no value there
// (a division by zero, a result of more than 64 bits, a text where a number is meant) throws no_value here.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace evo_export {

// An expression has no value for these sizes.
struct no_value_error : std::domain_error {
    using std::domain_error::domain_error;
};

// A whole number, a fraction or a text.
class exact {
public:
    enum class kind { whole, fraction, text };

    template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
    exact(T value) : own(kind::whole), i(static_cast<int64_t>(value)) {}
    exact(double value) : own(kind::fraction), d(value) {
        if (!std::isfinite(value)) throw no_value_error("the result does not fit 64 bits");
    }
    exact(std::string_view value) : own(kind::text), s(value) {}

    bool is_text() const { return own == kind::text; }
    bool is_whole() const { return own == kind::whole; }
    int64_t whole() const { return i; }
    std::string_view text() const { return s; }
    double number() const {
        if (is_text()) throw no_value_error("the text `" + std::string(s) + "` is used as a number");
        return is_whole() ? static_cast<double>(i) : d;
    }

private:
    kind own;
    int64_t i = 0;
    double d = 0.0;
    std::string_view s;
};

[[noreturn]] inline exact no_value(const char* why) { throw no_value_error(why); }
[[noreturn]] inline void overflow() { throw no_value_error("the result does not fit 64 bits"); }

inline bool is_true(const exact& a) {
    return a.is_text() ? !a.text().empty() : a.is_whole() ? a.whole() != 0 : a.number() != 0.0;
}

// Both are whole numbers; texts are refused.
inline bool both_whole(const exact& a, const exact& b) {
    (void)a.number();
    (void)b.number();
    return a.is_whole() && b.is_whole();
}

inline exact operator-(const exact& a) {
    if (!both_whole(a, a)) return -a.number();
    if (a.whole() == std::numeric_limits<int64_t>::min()) overflow();
    return -a.whole();
}

inline exact operator+(const exact& a, const exact& b) {
    if (!both_whole(a, b)) return a.number() + b.number();
    const int64_t x = a.whole(), y = b.whole();
    if (y > 0 ? x > std::numeric_limits<int64_t>::max() - y : x < std::numeric_limits<int64_t>::min() - y) overflow();
    return x + y;
}

inline exact operator-(const exact& a, const exact& b) {
    if (!both_whole(a, b)) return a.number() - b.number();
    const int64_t x = a.whole(), y = b.whole();
    if (y < 0 ? x > std::numeric_limits<int64_t>::max() + y : x < std::numeric_limits<int64_t>::min() + y) overflow();
    return x - y;
}

inline exact operator*(const exact& a, const exact& b) {
    if (!both_whole(a, b)) return a.number() * b.number();
    const int64_t x = a.whole(), y = b.whole();
    constexpr int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
    if (x == 0 || y == 0) return 0;
    if ((x == -1 && y == least) || (y == -1 && x == least)) overflow();
    if (x > 0 ? (y > 0 ? x > most / y : y < least / x) : (y > 0 ? x < least / y : y < most / x)) overflow();
    return x * y;
}

// Twice the quotient's precision, so that the result is the double nearest to the quotient.
inline double divide_exactly(int64_t a, int64_t b) {
    const auto size = [](int64_t x) { return x < 0 ? 0 - static_cast<uint64_t>(x) : static_cast<uint64_t>(x); };
    constexpr uint64_t exact_doubles = uint64_t(1) << 53;
    if (size(a) <= exact_doubles && size(b) <= exact_doubles) return static_cast<double>(a) / static_cast<double>(b);
    // Long division by bits: 64 of the quotient behind its first one, and whether anything follows.
    const uint64_t divisor = size(b);
    uint64_t rest = 0, dividend = size(a), quotient = 0;
    int exponent = 0, left = 64;
    bool begun = false;
    const auto step = [&](uint64_t bit) {
        const bool carry = rest >> 63;
        rest = (rest << 1) | bit;
        const bool fits = carry || rest >= divisor;
        if (fits) rest -= divisor;
        begun = begun || fits;
        quotient = (quotient << 1) | (fits ? 1u : 0u);
        left -= begun ? 1 : 0;
    };
    for (int at = 63; at >= 0; --at) step((dividend >> at) & 1);
    if (!begun && rest == 0) return 0.0;
    for (; left > 1; --exponent) step(0);
    quotient |= rest != 0 ? 1 : 0;
    const double value = std::ldexp(static_cast<double>(quotient), exponent);
    return (a < 0) != (b < 0) ? -value : value;
}

inline void refuse_zero(const exact& b) {
    if (b.number() == 0.0) throw no_value_error("division by zero");
}

inline exact operator/(const exact& a, const exact& b) {
    const bool whole = both_whole(a, b);
    refuse_zero(b);
    return whole ? divide_exactly(a.whole(), b.whole()) : a.number() / b.number();
}

inline exact floor_mod(const exact& a, const exact& b) {
    const bool whole = both_whole(a, b);
    refuse_zero(b);
    if (whole) {
        const int64_t rest = b.whole() == -1 ? 0 : a.whole() % b.whole();
        return rest != 0 && (rest < 0) != (b.whole() < 0) ? rest + b.whole() : rest;
    }
    const double rest = std::fmod(a.number(), b.number());
    return rest != 0.0 && (rest < 0.0) != (b.number() < 0.0) ? rest + b.number() : rest;
}

inline exact floor_div(const exact& a, const exact& b) {
    const bool whole = both_whole(a, b);
    refuse_zero(b);
    if (whole) {
        if (b.whole() == -1) return -a;
        const int64_t quotient = a.whole() / b.whole();
        return quotient - (a.whole() % b.whole() != 0 && (a.whole() < 0) != (b.whole() < 0) ? 1 : 0);
    }
    const double rest = std::fmod(a.number(), b.number());
    const double step = rest != 0.0 && (rest < 0.0) != (b.number() < 0.0) ? 1.0 : 0.0;
    const double quotient = (a.number() - rest) / b.number() - step;
    // Rounding may leave the quotient just below a whole number.
    const double floor = std::floor(quotient);
    return quotient - floor > 0.5 ? floor + 1.0 : floor;
}

inline exact ceil_div(const exact& a, const exact& b) { return -floor_div(-a, b); }

inline exact power(const exact& a, const exact& b) {
    if (both_whole(a, b) && b.whole() >= 0) {
        int64_t base = a.whole(), exponent = b.whole();
        if (exponent == 0 || base == 1) return 1;
        if (base == 0) return 0;
        if (base == -1) return exponent % 2 == 0 ? 1 : -1;
        if (exponent > 63) overflow();
        exact result = 1;
        for (; exponent > 0; --exponent) result = result * base;
        return result;
    }
    const double base = a.number(), exponent = b.number();
    if (base == 0.0 && exponent < 0.0) throw no_value_error("division by zero");
    if (base < 0.0 && std::trunc(exponent) != exponent) {
        throw no_value_error("cannot raise a negative number to a fractional power");
    }
    return std::pow(base, exponent);
}

inline exact absolute(const exact& a) {
    if (both_whole(a, a)) return a.whole() < 0 ? -a : a;
    return std::fabs(a.number());
}

// -1, 0 or 1. A number and a text have no order.
inline int order(const exact& a, const exact& b) {
    if (a.is_text() != b.is_text()) throw no_value_error("a number and a text have no order");
    if (a.is_text()) return a.text() < b.text() ? -1 : a.text() == b.text() ? 0 : 1;
    if (a.is_whole() && b.is_whole()) return a.whole() < b.whole() ? -1 : a.whole() > b.whole() ? 1 : 0;
    if (!a.is_whole() && !b.is_whole()) return a.number() < b.number() ? -1 : a.number() > b.number() ? 1 : 0;
    if (!a.is_whole()) return -order(b, a);
    // As doubles, whole numbers beyond 2^53 would be rounded first.
    constexpr double two_63 = 9223372036854775808.0;
    if (b.number() >= two_63) return -1;
    if (b.number() < -two_63) return 1;
    const double floor = std::floor(b.number());
    const int64_t whole = static_cast<int64_t>(floor);
    return a.whole() < whole ? -1 : a.whole() > whole ? 1 : b.number() > floor ? -1 : 0;
}

inline bool operator==(const exact& a, const exact& b) { return a.is_text() == b.is_text() && order(a, b) == 0; }
inline bool operator!=(const exact& a, const exact& b) { return !(a == b); }
inline bool operator<(const exact& a, const exact& b) { return order(a, b) < 0; }
inline bool operator<=(const exact& a, const exact& b) { return order(a, b) <= 0; }
inline bool operator>(const exact& a, const exact& b) { return order(a, b) > 0; }
inline bool operator>=(const exact& a, const exact& b) { return order(a, b) >= 0; }

inline bool is_one_of(const exact& a, std::initializer_list<exact> list) {
    for (const exact& item : list) {
        if (a == item) return true;
    }
    return false;
}

// The first of equals, as in Python.
inline exact smallest(std::initializer_list<exact> list) {
    exact best = *list.begin();
    for (const exact& item : list) best = &item != list.begin() && order(item, best) < 0 ? item : best;
    return best;
}

inline exact largest(std::initializer_list<exact> list) {
    exact best = *list.begin();
    for (const exact& item : list) best = &item != list.begin() && order(item, best) > 0 ? item : best;
    return best;
}

// `and` and `or` give the operand that decides; what follows is not computed.
template <class Last>
exact first_false(const Last& last) {
    return last();
}
template <class First, class... Rest>
exact first_false(const First& first, const Rest&... rest) {
    const exact value = first();
    return is_true(value) ? first_false(rest...) : value;
}
template <class Last>
exact first_true(const Last& last) {
    return last();
}
template <class First, class... Rest>
exact first_true(const First& first, const Rest&... rest) {
    const exact value = first();
    return is_true(value) ? value : first_true(rest...);
}

// A whole number: `4.0` counts as 4.
inline int64_t to_whole(const exact& a) {
    if (a.number() == 0.0 || a.is_whole()) return a.whole();
    if (std::trunc(a.number()) != a.number() || std::fabs(a.number()) >= 9223372036854775808.0) {
        throw no_value_error("a whole number of 64 bits is expected");
    }
    return static_cast<int64_t>(a.number());
}

}  // namespace evo_export
