//! The words of C++ that no name of a kernel's source can be.

/// Key words of C++17, and two of C++20 that compilers take for such.
const CPP_WORDS: &str = "alignas alignof and asm auto bool break case catch char class const constexpr continue default \
    delete do double else enum explicit export extern false float for friend goto if inline int long \
    mutable namespace new noexcept not nullptr operator or private protected public register return \
    short signed sizeof static struct switch template this throw true try typedef typeid typename \
    union unsigned using virtual void volatile while xor concept requires";

pub fn is_cpp_word(name: &str) -> bool {
    CPP_WORDS.split(' ').any(|word| word == name)
}
